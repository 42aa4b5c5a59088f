"""`wharfinger session create`."""

import os
from collections.abc import Sequence
from typing import Any

import click

from wharfinger.cli import output
from wharfinger.cli.advice import unknown_image
from wharfinger.cli.exits import Exit
from wharfinger.cli.follow_session import follow_session
from wharfinger.cli.remote import ask, remote
from wharfinger.client.api import Api
from wharfinger.client.errors import RemoteError
from wharfinger.client.shapes import KernelSpec, Session, Variable
from wharfinger.domain.failures import FailureClass
from wharfinger.domain.references import Reference
from wharfinger.domain.slots import parse_cpu, parse_mem


@click.command()
@click.argument("reference", metavar="REF")
@click.option(
    "--kernels",
    "count",
    type=click.IntRange(min=1),
    metavar="N",
    help="How many containers of REF.  [default: 1]",
)
@click.option(
    "--kernel",
    "others",
    multiple=True,
    metavar="REF",
    help="A further container, of another image; may be repeated.",
)
@click.option("--name", metavar="TEXT", help="What to call it.  [default: made up]")
@click.option(
    "--cpu", default="1", show_default=True, metavar="N", help="Processors: 2, 0.5, 250m."
)
@click.option("--mem", default="1g", show_default=True, metavar="SIZE", help="Memory: 4g, 512m.")
@click.option(
    "--gpu",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    metavar="N",
    help="Graphics processors.",
)
@click.option(
    "--env",
    "variables",
    multiple=True,
    metavar="NAME[=VALUE]",
    help="A variable; without =VALUE it is taken from your environment. May be repeated.",
)
@click.option("--sgroup", metavar="NAME", help="Only hosts of this scaling group.")
@click.option("--wait", is_flag=True, help="Show why it waits, then the pull, until it runs.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
@remote
def create(
    reference: str,
    count: int | None,
    others: Sequence[str],
    name: str | None,
    sgroup: str | None,
    wait: bool,
    url: str | None,
    as_json: bool,
    **asked: Any,
) -> Exit:
    """Queue a session: it starts once there is room and its image is on a host.

    Users may ask for images that an admin made known (`wharfinger image ls`); a superadmin's session
    makes its own known. CPU, memory, graphics processors, variables and the command are those of each container. What
    follows -- is the command; without it the image's own runs. A session goes on when you stop
    waiting for it with Ctrl-C.

    \b
    Examples:
      wharfinger session create 127.0.0.1:5000/app:v1 --wait
      wharfinger session create r.lan/torch:24.1 --cpu 4 --mem 16g --gpu 1 -- python train.py
      wharfinger session create r.lan/worker:v1 --kernels 3 --env MODE=fast --env HOME
      wharfinger session create r.lan/web:v1 --kernel r.lan/db:v1 --sgroup left --json

    \b
    Exit codes: 0 queued (with --wait: it runs, or ended with 0), 1 failed, cancelled or
    ended with another code, 2 wrong usage, 4 not allowed, 5 manager not reachable,
    130 interrupted (the session goes on).
    """
    references = [*[reference] * (count or 1), *others]
    kernels = [kernel_spec(each, **asked) for each in references]

    async def begin(api: Api) -> Session:
        try:
            return await api.create_session(kernels, name=name, scaling_group=sgroup)
        except RemoteError as refusal:
            if refusal.code == FailureClass.NOT_FOUND:
                missing = refusal.detail.get("reference", kernels[0]["reference"])
                output.note(unknown_image(missing, (await api.viewer())["role"]))
            raise

    if wait:
        return follow_session(url, begin, until_running=True, as_json=as_json)
    try:
        session = ask(url, begin)
    except KeyboardInterrupt:
        output.note(
            "interrupted; whether the session was created is told by: wharfinger session ls"
        )
        return Exit.INTERRUPTED
    if as_json:
        output.document(session)
    else:
        output.line(session["id"])
        output.note(f"queued; to follow it: wharfinger session watch {session['id']}")
        output.note(f"what it writes: wharfinger session logs {session['id']} --follow")
    return Exit.OK


def kernel_spec(
    reference: str,
    *,
    cpu: str,
    mem: str,
    gpu: int,
    variables: Sequence[str],
    command: Sequence[str],
) -> KernelSpec:
    """What is asked for one container. Raises `InvalidReference`, `InvalidRequest`, `UsageError`."""
    return KernelSpec(
        reference=str(Reference.parse(reference)),
        cpu=parse_cpu(cpu) / 1000,
        mem=parse_mem(mem),
        gpu=gpu,
        command=list(command),
        environment=environment(variables, os.environ),
    )


def environment(texts: Sequence[str], ours: Any) -> list[Variable]:
    """From `NAME=VALUE`, or `NAME` for a variable of `ours`. The last of a name counts."""
    chosen: dict[str, str] = {}
    for text in texts:
        name, is_given, value = text.partition("=")
        if not name:
            raise click.UsageError(f"--env {text}: write NAME=VALUE, or NAME to take your own")
        if not is_given and name not in ours:
            raise click.UsageError(
                f"--env {name}: it is not set here; give it with --env {name}=VALUE"
            )
        chosen[name] = value if is_given else ours[name]
    return [Variable(name=name, value=value) for name, value in chosen.items()]
