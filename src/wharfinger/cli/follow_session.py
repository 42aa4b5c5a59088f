"""Follows a session until it runs or has ended, and says how to go on where it cannot."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from typing import Final

from wharfinger.cli import exits, output
from wharfinger.cli.display import session_layout, session_summary
from wharfinger.cli.display.live import Display, Drawing, display_for
from wharfinger.cli.display.session_lines import SessionLog
from wharfinger.cli.exits import Exit
from wharfinger.cli.remote import ask
from wharfinger.client.api import Api
from wharfinger.client.errors import ServerUnreachable
from wharfinger.client.shapes import Session
from wharfinger.domain.errors import Forbidden, UnknownId, WharfingerError
from wharfinger.domain.states import KernelStatus

Begin = Callable[[Api], Awaitable[Session]]
"""Creates the session, or reads one that there is."""

STAYS_SECONDS: Final = 0.5
"""How long what runs is looked at: a command that ends at once is not told as running."""

_NOT_OURS: Final = frozenset({Forbidden.code, UnknownId.code})


def follow_session(url: str | None, begin: Begin, *, until_running: bool, as_json: bool) -> Exit:
    """Show the session until it runs or has ended, then how it stands. Ctrl-C leaves it alone."""
    follower = _Follower(begin, until_running=until_running, as_json=as_json)
    try:
        session = ask(url, follower.run)
    except KeyboardInterrupt:
        output.note(f"interrupted; {follower.how_to_go_on()}")
        if as_json and follower.session:
            output.document(follower.session)
        return Exit.INTERRUPTED
    except (output.ReaderGone, output.CannotWrite):
        output.note(follower.how_to_go_on())
        raise
    except WharfingerError as error:
        if follower.session and error.code not in _NOT_OURS:
            output.note(follower.how_to_go_on())
        raise
    show_standing(session, as_json=as_json)
    return exits.of_session(session)


def show_standing(session: Session, *, as_json: bool) -> None:
    """The document, or what went wrong and a sentence."""
    if as_json:
        output.document(session)
        return
    for line in session_summary.failures(session):
        output.line(line)
    output.line(session_summary.sentence(session))


class _Follower:
    """Holds what is known of the session, so that it can be told wherever the following ends."""

    def __init__(self, begin: Begin, *, until_running: bool, as_json: bool) -> None:
        self._begin = begin
        self._until_running = until_running
        self._as_json = as_json
        self.session: Session | None = None

    def how_to_go_on(self) -> str:
        """What to type next."""
        if self.session is None:
            return "whether the session was created is told by: wharfinger session ls"
        if session_summary.has_ended(self.session):
            return f"how it ended: wharfinger session show {self.session['id']}"
        return f"the session goes on; to follow it: wharfinger session watch {self.session['id']}"

    async def run(self, api: Api) -> Session:
        """The session as it runs or has ended."""
        self.session = session = await self._begin(api)
        drawing = Drawing(SessionLog(time.monotonic).update, session_layout.render)
        with display_for(drawing, as_json=self._as_json) as display:
            display.show(session)
            while True:
                self.session = await self._look_on(api, display, self.session)
                try:
                    self.session = await api.session(session["id"])
                except ServerUnreachable:
                    return self.session  # how it stands is known; the manager may stop right after
                if self.session["status"] != KernelStatus.TERMINATING:
                    return self.session
                display.show(self.session)  # it began to end after the last look

    async def _look_on(self, api: Api, display: Display[Session], session: Session) -> Session:
        """Show it until it has ended or, where that is enough, has run for a moment."""
        with suppress(TimeoutError):
            async with (
                asyncio.timeout(None) as patience,
                aclosing(api.watch_session(session["id"], on_outage=display.away)) as events,
            ):
                async for event in events:
                    self.session = session = event.apply(session)
                    display.show(session)
                    if self._until_running:
                        self._limit(patience, session)
        return session

    @staticmethod
    def _limit(patience: asyncio.Timeout, session: Session) -> None:
        """Look on for a moment once it runs; to its end when it does not go on running."""
        if session["status"] != KernelStatus.RUNNING:
            patience.reschedule(None)
        elif patience.when() is None:
            patience.reschedule(asyncio.get_running_loop().time() + STAYS_SECONDS)
