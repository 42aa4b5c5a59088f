"""Watching a session: first what is, then every transition and the pulls, and always the end."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Final

from wharfinger.manager.sessions.bells import Bell, SessionBells
from wharfinger.manager.sessions.live import LivePulls
from wharfinger.manager.sessions.story import SessionEvent, Story
from wharfinger.manager.sessions.views import SessionView

PULL_SECONDS: Final = 0.3
"""Between two looks at how far the pulls are."""

Read = Callable[[str], Awaitable[SessionView]]
"""Reads a session with its kernels' transitions; raises `UnknownId`."""


class SessionWatch:
    """The events of sessions, for any number of watchers."""

    def __init__(self, bells: SessionBells, live: LivePulls, read: Read) -> None:
        self._bells = bells
        self._live = live
        self._read = read

    @asynccontextmanager
    async def watch(
        self, session_id: str, *, last_event_id: str | None = None
    ) -> AsyncIterator[AsyncIterator[SessionEvent]]:
        """The events of a session, to be read within the context. Raises `UnknownId` on entering.

        They stop without an end when this manager stops.
        """
        # the bell stands before the session is read, so nothing falls between the two
        with self._bells.waiting(session_id) as bell:
            story = Story(await self._look(session_id), last_event_id)
            events = self._events(session_id, story, bell)
            async with aclosing(events):
                yield events

    async def _events(
        self, session_id: str, story: Story, bell: Bell
    ) -> AsyncGenerator[SessionEvent, None]:
        for event in story.begin():
            yield event
        while not story.ended:
            rung = await bell.wait(PULL_SECONDS if story.pulling else None)
            if bell.closed:
                return
            news = (
                story.read(await self._look(session_id))
                if rung
                else story.hear(self._live.figures(story.attempts))
            )
            for event in news:
                yield event

    async def _look(self, session_id: str) -> SessionView:
        view = await self._read(session_id)
        return view.with_pulls(self._live.figures(view.attempts))
