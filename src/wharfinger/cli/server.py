"""The commands that run a server: `up`, `manager`, `agent`. The programs are imported lazily."""

import asyncio
from pathlib import Path
from typing import Any

import click

from wharfinger.cli import output


@click.command(short_help="Run a manager and an agent per engine, all in one process.")
@click.option("--host", help="Address of the API.  [default: 127.0.0.1]")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help="Port of the API; 0 takes any free one.  [default: 8080]",
)
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the database and secrets.  [default: ~/.local/share/wharfinger]",
)
@click.option(
    "--engine",
    "engines",
    multiple=True,
    metavar="[SGROUP=]URL",
    help="An engine, repeatable.  [default: DOCKER_HOST, or this machine's Docker or Podman]",
)
def up(engines: tuple[str, ...], **given: Any) -> None:
    """Run a manager and one agent per engine, in this process, until stopped.

    The first start makes a superadmin; every start writes the server and its token to your
    configuration folder, so that the other commands find them.

    \b
    Examples:
      wharfinger up
      wharfinger up --engine gpu=unix:///run/a.sock --engine cpu=unix:///run/b.sock
    """
    from wharfinger.run import programs

    asyncio.run(programs.up(_given(given), engines, click.echo, output.note))


@click.command(short_help="Run one manager (production).")
@click.option("--host", help="Address of the API.  [default: 127.0.0.1]")
@click.option("--port", type=click.IntRange(0, 65535), help="Port of the API.  [default: 8080]")
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the key of the secrets.  [default: ~/.local/share/wharfinger]",
)
def manager(**given: Any) -> None:
    """Run one manager until stopped.

    Settings come from the environment: WHARFINGER_DATABASE_URL and the others that the reference
    lists. The first manager on a fresh database makes a superadmin, and prints its token's file.

    \b
    Examples:
      wharfinger manager --data-dir /var/lib/wharfinger
      WHARFINGER_DATABASE_URL=postgresql://wharfinger@db.lan/wharfinger \\
        wharfinger manager --host 0.0.0.0
    """
    from wharfinger.run import programs

    asyncio.run(programs.manager(_given(given), click.echo, output.note))


@click.command(short_help="Run the agent of one engine (production).")
@click.option(
    "--id",
    metavar="ID",
    help="The agent's name in the cluster.  [required; or WHARFINGER_AGENT_ID]",
)
@click.option("--scaling-group", help="Its scaling group.  [default: default]")
@click.option(
    "--manager-url",
    metavar="URL",
    help="Where the managers are reached.  [required; or WHARFINGER_AGENT_MANAGER_URL]",
)
@click.option("--engine", help="The engine's URL.  [default: unix:///var/run/docker.sock]")
@click.option("--host", help="Address for the managers' calls.  [default: 127.0.0.1]")
@click.option("--port", type=click.IntRange(0, 65535), help="Port for them.  [default: any]")
@click.option("--advertise", help="The URL managers reach it at, if another.")
@click.option(
    "--state-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of its identity.  [default: ~/.local/share/wharfinger/agent]",
)
def run_agent(**given: Any) -> None:
    """Run one agent until stopped.

    Settings may come from the environment: WHARFINGER_AGENT_ID and so on. To join for the first
    time it needs WHARFINGER_AGENT_JOIN_TOKEN, made with 'wharfinger agent token'.

    \b
    Examples:
      WHARFINGER_AGENT_JOIN_TOKEN=TOKEN \\
        wharfinger agent run --id gpu-a --manager-url http://manager.lan:8080
      wharfinger agent run --id gpu-a --manager-url http://manager.lan:8080
    """
    from wharfinger.run import programs

    asyncio.run(programs.agent(_given(given), click.echo, output.note))


def _given(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}
