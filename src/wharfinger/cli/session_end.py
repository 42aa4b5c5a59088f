"""`wharfinger session terminate` and `cancel`."""

from collections.abc import Sequence
from contextlib import aclosing
from functools import partial

import click

from wharfinger.cli import output
from wharfinger.cli.display import session_summary
from wharfinger.cli.each import Outcomes, ask_each, tell
from wharfinger.cli.exits import Exit
from wharfinger.cli.naming import with_session
from wharfinger.cli.remote import ask, remote
from wharfinger.client.api import Api
from wharfinger.client.errors import RemoteError, ServerUnreachable
from wharfinger.client.shapes import Session


@click.command()
@click.argument("session_ids", metavar="ID...", nargs=-1, required=True)
@click.option("--wait", is_flag=True, help="Until their containers are gone.")
@remote
def terminate(session_ids: Sequence[str], wait: bool, url: str | None, as_json: bool) -> Exit:
    """End sessions, whatever their state.

    All are asked for, whatever becomes of one of them. With --json: one session for one ID, an
    array for several; {"done", "errors"} where only some are done, which is exit code 3.

    \b
    Examples:
      wharfinger session terminate 4f2a9c --wait
      wharfinger session terminate $(wharfinger session ls --json | jq -r '.[].id')
    """

    async def end_all(api: Api) -> Outcomes[Session]:
        outcomes = await ask_each(
            session_ids, lambda text: with_session(api, text, api.terminate_session)
        )
        if wait:
            await _follow_ends(api, outcomes)
        return outcomes

    outcomes = ask(url, end_all)
    return tell(outcomes, lambda each: _standing(each, "terminated"), as_json=as_json)


@click.command()
@click.argument("session_id", metavar="ID")
@click.option("--force", is_flag=True, help="As a superadmin: one that is somebody else's.")
@remote
def cancel(session_id: str, force: bool, url: str | None, as_json: bool) -> Exit:
    """End a session before it runs. One that runs is ended with `terminate`.

    Its slots are free at once, and its pull stops unless somebody else waits for it. Of one whose
    containers are just made, the slots are held until it is confirmed that none is left.

    \b
    Examples:
      wharfinger session cancel 4f2a9c
      wharfinger session cancel 4f2a9c --force
    """
    asked = ask(
        url, lambda api: with_session(api, session_id, partial(api.cancel_session, force=force))
    )
    if as_json:
        output.document(asked)
    else:
        output.line(_standing(asked, "cancelled"))
    return Exit.OK


async def _follow_ends(api: Api, outcomes: Outcomes[Session]) -> None:
    """Put how the sessions ended in the place of their being ended."""
    for place, each in enumerate(outcomes.done):
        try:
            outcomes.done[place] = await _end_of(api, each)
        except (RemoteError, ServerUnreachable) as error:
            outcomes.refusals[each["id"]] = error


async def _end_of(api: Api, session: Session) -> Session:
    """The session once it has ended."""
    if not session_summary.has_ended(session):
        async with aclosing(api.watch_session(session["id"])) as events:
            async for event in events:
                session = event.apply(session)
    return session


def _standing(session: Session, what: str) -> str:
    if session_summary.has_ended(session):
        return session_summary.sentence(session)
    return f"session {session['id']} is being {what}: wharfinger session watch {session['id']}"
