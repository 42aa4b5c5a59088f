"""`wharfinger agent`: the hosts, and the agent itself."""

from collections.abc import Awaitable, Callable
from typing import Any

import click

from wharfinger.cli import output, words
from wharfinger.cli.exits import Exit
from wharfinger.cli.lazy import Entry, LazyGroup
from wharfinger.cli.remote import ask, remote
from wharfinger.cli.task import show_transitions
from wharfinger.client.api import Api
from wharfinger.client.shapes import Agent

_HELP = frozenset({"--help", "-h"})


class _AgentGroup(LazyGroup):
    """`agent` alone, or with options at once, is `agent run`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does, with `run` where no command is named."""
        if not args or (args[0].startswith("-") and args[0] not in _HELP):
            args = ["run", *args]
        return super().parse_args(ctx, args)


@click.group(
    cls=_AgentGroup,
    entries={
        "run": Entry("wharfinger.cli.server:run_agent", "Run the agent of this host's engine.")
    },
)
def agent() -> None:
    """Run the agent of this host, or manage the agents a manager knows.

    Without a command it runs the agent: `wharfinger agent OPTIONS` is `wharfinger agent run
    OPTIONS`, whose --help lists them.

    \b
    Examples:
      wharfinger agent ls
      wharfinger agent token rack-7
      wharfinger agent run --id gpu-a --manager-url http://manager.lan:8080
    """


@agent.command()
@remote
def ls(url: str | None, as_json: bool) -> Exit:
    """List agents.

    \b
    Examples:
      wharfinger agent ls
      wharfinger agent ls --json | jq -r '.[] | select(.status=="LOST").id'
    """
    agents = ask(url, lambda api: api.agents())
    if as_json:
        output.document(agents)
        return Exit.OK
    output.table(
        ("ID", "GROUP", "STATUS", "USED", "DISK FREE", "PLATFORM", "ENGINE", "HEARD", "PROBLEM"),
        [
            (
                each["id"],
                each["scalingGroup"],
                _status(each),
                words.used(each["occupied"], each["slots"]),
                _disk(each),
                _platform(each),
                _engine(each),
                f"{words.age(each['heardSecondsAgo'])} ago",
                each["engine"]["problem"],
            )
            for each in agents
        ],
        empty="no agents: `wharfinger up` starts some, `wharfinger agent token` lets others join",
    )
    return Exit.OK


@agent.command()
@click.argument("agent_id", metavar="ID")
@remote
def show(agent_id: str, url: str | None, as_json: bool) -> Exit:
    """Show an agent: its engine, its images, and what happened to it.

    \b
    Example:
      wharfinger agent show gpu-a
    """
    found = ask(url, lambda api: api.agent(agent_id))
    if as_json:
        output.document(found)
        return Exit.OK
    for name, value in (
        ("id", found["id"]),
        ("scaling group", found["scalingGroup"]),
        ("status", _status(found)),
        ("platform", _platform(found)),
        ("engine", _engine(found)),
        ("problem", found["engine"]["problem"] or "none"),
        ("agent version", found["version"]),
        ("used", words.used(found["occupied"], found["slots"])),
        ("disk free", _disk(found)),
        ("heard", f"{words.age(found['heardSecondsAgo'])} ago"),
    ):
        output.line(f"{name + ':':15}{words.plain(value)}")
    output.line()
    output.table(
        ("REFERENCE", "DIGEST", "SIZE"),
        [
            (each["reference"], output.digest(each["rootDigest"]), words.size(each["size"]))
            for each in found["images"]
        ],
        empty="no images",
    )
    output.line()
    show_transitions(found["transitions"])
    return Exit.OK


@agent.command()
@click.argument("agent_id", metavar="ID")
@remote
def cordon(agent_id: str, url: str | None, as_json: bool) -> Exit:
    """Let nothing new come to an agent. What runs there goes on.

    \b
    Example:
      wharfinger agent cordon gpu-a
    """
    return _change(url, lambda api: api.cordon_agent(agent_id), "is cordoned", as_json=as_json)


@agent.command()
@click.argument("agent_id", metavar="ID")
@remote
def uncordon(agent_id: str, url: str | None, as_json: bool) -> Exit:
    """Take a cordon back.

    \b
    Example:
      wharfinger agent uncordon gpu-a
    """
    return _change(url, lambda api: api.uncordon_agent(agent_id), "takes work", as_json=as_json)


@agent.command()
@click.argument("agent_id", metavar="ID")
@remote
def rm(agent_id: str, url: str | None, as_json: bool) -> Exit:
    """Retire an agent: its credential is void, and its images are no longer listed.

    Its process ends. To come back, the host joins anew, with an empty state folder and a join
    token.

    \b
    Example:
      wharfinger agent rm gpu-a
    """
    return _change(url, lambda api: api.remove_agent(agent_id), "is retired", as_json=as_json)


@agent.command()
@click.argument("label")
@remote
def token(label: str, url: str | None, as_json: bool) -> Exit:
    """Create a join token, with which an agent on another host makes itself known.

    LABEL says what it is for. The token is shown once.

    \b
    Example:
      wharfinger agent token rack-7
    """
    created = ask(url, lambda api: api.create_join_token(label))
    if as_json:
        output.document(created)
    else:
        output.line(created["token"])
        output.note("shown once; the manager keeps only its hash")
    return Exit.OK


def _change(
    url: str | None, change: Callable[[Api], Awaitable[Agent]], outcome: str, *, as_json: bool
) -> Exit:
    changed: Any = ask(url, change)
    if as_json:
        output.document(changed)
    else:
        output.line(f"agent {changed['id']} {outcome}")
    return Exit.OK


def _status(each: Agent) -> str:
    return f"{each['status']} (cordoned)" if each["cordoned"] else each["status"]


def _disk(each: Agent) -> str:
    """`120 GiB of 500 GiB`: where the engine keeps its images."""
    disk = each["disk"]
    return f"{words.size(disk['free'])} of {words.size(disk['total'])}" if disk else "-"


def _platform(each: Agent) -> str:
    return "/".join(filter(None, (each["os"], each["architecture"], each["variant"]))) or "-"


def _engine(each: Agent) -> str:
    engine = each["engine"]
    return " ".join(filter(None, (engine["kind"], engine["version"], engine["store"]))) or "-"
