"""`wharfinger session`: containers that start the moment their image is ready."""

from collections.abc import Sequence

import click

from wharfinger.cli import output, words
from wharfinger.cli.display import session_summary
from wharfinger.cli.display.session_lines import progress
from wharfinger.cli.exits import Exit
from wharfinger.cli.follow_session import follow_session
from wharfinger.cli.lazy import Entry, LazyGroup
from wharfinger.cli.naming import with_session
from wharfinger.cli.reasons import why
from wharfinger.cli.remote import ask, remote
from wharfinger.cli.session_end import cancel, terminate
from wharfinger.cli.session_logs import logs
from wharfinger.cli.task import show_transitions
from wharfinger.client.api import Api
from wharfinger.client.shapes import Kernel, Session
from wharfinger.domain.sessions import OPEN
from wharfinger.domain.states import KernelStatus


@click.group(
    cls=LazyGroup,
    entries={"create": Entry("wharfinger.cli.create:create", "Queue a session.")},
)
def session() -> None:
    """Start sessions, and see, follow and end them.

    A session is one or more containers that start together and end together.

    \b
    Examples:
      wharfinger session create 127.0.0.1:5000/app:v1 --wait
      wharfinger session ls
      wharfinger session logs 4f2a9c --follow
    """


@session.command()
@click.option("--all-states", is_flag=True, help="Those that have ended, too.")
@click.option(
    "--status",
    multiple=True,
    type=click.Choice([status.value for status in KernelStatus]),
    metavar="STATUS",
    help="Only sessions of this status; may be repeated.",
)
@click.option(
    "--limit", type=click.IntRange(min=1), metavar="N", help="The newest N.  [default: all]"
)
@remote
def ls(
    all_states: bool, status: Sequence[str], limit: int | None, url: str | None, as_json: bool
) -> Exit:
    """List sessions that have not ended, the newest first.

    Your own, or everybody's for a superadmin.

    \b
    Examples:
      wharfinger session ls
      wharfinger session ls --status PENDING --status PULLING
      wharfinger session ls --all-states --limit 20 --json
    """
    if all_states and status:
        raise click.UsageError("not both of --all-states and --status")
    wanted = status or ([] if all_states else [each.value for each in OPEN])
    sessions = ask(url, lambda api: api.sessions(limit=limit, status=wanted, with_logs=as_json))
    if as_json:
        output.document(sessions)
        return Exit.OK
    output.table(
        ("ID", "NAME", "OWNER", "STATUS", "WHY", "IMAGE", "AGENT", "AGE"),
        [
            (
                each["id"],
                each["name"],
                each["owner"],
                each["status"],
                why(each) or "-",
                _images(each),
                session_summary.places(each),
                words.since(each["createdAt"]),
            )
            for each in sessions
        ],
        empty="no sessions: start one with `wharfinger session create REF`",
    )
    return Exit.OK


@session.command()
@click.argument("session_id", metavar="ID")
@remote
def show(session_id: str, url: str | None, as_json: bool) -> Exit:
    """Show a session: why it is where it is, and all that happened.

    ID is its id, the beginning of it, or its name, as long as it is the only one.

    \b
    Examples:
      wharfinger session show 4f2a9c
      wharfinger session show train
    """
    found = ask(url, lambda api: with_session(api, session_id, api.session))
    if as_json:
        output.document(found)
        return Exit.OK
    output.line(session_summary.sentence(found))
    for name, value in (
        ("name", found["name"]),
        ("owner", found["owner"]),
        ("scaling group", found["scalingGroup"] or "any"),
        ("created", words.moment(found["createdAt"])),
        ("ended", words.moment(found["endedAt"]) if found["endedAt"] else "-"),
    ):
        output.line(f"{name + ':':15}{words.plain(value)}")
    for number, kernel in enumerate(found["kernels"], start=1):
        _show_kernel(number, kernel)
    failures = session_summary.failures(found)
    for line in ["", *failures] if failures else []:
        output.line(line)
    return Exit.OK


@session.command()
@click.argument("session_id", metavar="ID")
@remote
def watch(session_id: str, url: str | None, as_json: bool) -> Exit:
    """Follow a session to its end; of one that has ended, show the end.

    Ctrl-C stops the watching, not the session. The exit code is 0 when it ended with 0.

    \b
    Example:
      wharfinger session watch 4f2a9c
    """

    async def begin(api: Api) -> Session:
        return await with_session(api, session_id, api.session)

    return follow_session(url, begin, until_running=False, as_json=as_json)


for command in (logs, terminate, cancel):
    session.add_command(command)


def _show_kernel(number: int, kernel: Kernel) -> None:
    code = kernel["exitCode"]
    output.line()
    for name, value in (
        (f"kernel {number}", kernel["id"]),
        ("image", kernel["reference"]),
        ("digest", output.digest(kernel["rootDigest"])),
        ("status", kernel["status"]),
        ("why", why(kernel) or "-"),
        ("agent", kernel["agentId"] or "-"),
        ("slots", words.slots(kernel["slots"])),
        ("command", " ".join(kernel["command"]) or "the image's own"),
        ("attempts", kernel["attempts"]),
        ("exit code", "-" if code is None else code),
    ):
        output.line(f"{name + ':':15}{words.plain(value)}")
    if pulling := progress(kernel):
        output.line(f"{'pull:':15}{pulling}")
    output.line()
    show_transitions(kernel["transitions"])


def _images(each: Session) -> str:
    """Each image once, and how often: `r/web:v1, r/worker:v1 x3`."""
    references = [kernel["reference"] for kernel in each["kernels"]]
    return ", ".join(
        f"{reference} x{number}" if (number := references.count(reference)) > 1 else reference
        for reference in dict.fromkeys(references)
    )
