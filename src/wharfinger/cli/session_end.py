"""`wharfinger session terminate` and `cancel`."""

from collections.abc import Sequence
from contextlib import aclosing
from functools import partial

import click

from wharfinger.cli import output
from wharfinger.cli.display import session_summary
from wharfinger.cli.exits import Exit
from wharfinger.cli.naming import with_session
from wharfinger.cli.remote import ask, remote
from wharfinger.client.api import Api
from wharfinger.client.errors import RemoteError
from wharfinger.client.shapes import Session
from wharfinger.domain.errors import UnknownId, WharfingerError


@click.command()
@click.argument("session_ids", metavar="ID...", nargs=-1, required=True)
@click.option("--wait", is_flag=True, help="Until their containers are gone.")
@remote
def terminate(session_ids: Sequence[str], wait: bool, url: str | None, as_json: bool) -> Exit:
    """End sessions, whatever their state.

    All are asked for, whatever becomes of one of them. With --json: one session for one ID, an
    array for several.

    \b
    Examples:
      wharfinger session terminate 4f2a9c --wait
      wharfinger session terminate $(wharfinger session ls --json | jq -r '.[].id')
    """
    wanted = list(dict.fromkeys(session_ids))

    async def end_all(api: Api) -> list[Session]:
        ended: list[Session] = []
        refusals: list[WharfingerError] = []
        for session_id in wanted:
            try:
                ended.append(await with_session(api, session_id, api.terminate_session))
            except (RemoteError, UnknownId) as error:
                refusals.append(error)
        if wait:
            ended = [await _end_of(api, each) for each in ended]
        if refusals:
            _tell(ended)
            for refusal in refusals[1:]:
                output.note(f"error: {refusal.message}")
            raise refusals[0]
        return ended

    ended = ask(url, end_all)
    if as_json:
        output.document(ended[0] if len(wanted) == 1 else ended)
    else:
        for each in ended:
            output.line(_standing(each, "terminated"))
    return Exit.OK


@click.command()
@click.argument("session_id", metavar="ID")
@click.option("--force", is_flag=True, help="As a superadmin: anybody's, at once.")
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


async def _end_of(api: Api, session: Session) -> Session:
    """The session once it has ended."""
    if not session_summary.has_ended(session):
        async with aclosing(api.watch_session(session["id"])) as events:
            async for event in events:
                session = event.apply(session)
    return session


def _tell(ended: Sequence[Session]) -> None:
    for each in ended:
        output.note(_standing(each, "terminated"))


def _standing(session: Session, what: str) -> str:
    if session_summary.has_ended(session):
        return session_summary.sentence(session)
    return f"session {session['id']} is being {what}: wharfinger session watch {session['id']}"
