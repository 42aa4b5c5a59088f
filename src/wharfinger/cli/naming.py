"""Sessions and tasks by what people have of them: an id, its beginning, or a session's name."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from wharfinger.client.api import Api
from wharfinger.client.errors import RemoteError
from wharfinger.client.shapes import Session
from wharfinger.domain.errors import UnknownId
from wharfinger.domain.sessions import OPEN

T = TypeVar("T")
Operation = Callable[[str], Awaitable[T]]
"""Does something with the thing of an id; raises `RemoteError` where there is none."""

_TASKS: Final = 1000
"""Among so many of the newest tasks the beginning of an id is looked for."""
_SESSIONS: Final = 1000
"""The same of sessions that have ended."""
_TOLD: Final = 5


async def with_session(api: Api, text: str, operation: Operation[T]) -> T:
    """What `operation` makes of the session with this id; else of the one whose name this is, or
    whose id begins so: of those that have not ended, else of the newest that have.

    Raises `UnknownId` where it could be several, and the refusal itself where there is none.
    """
    try:
        return await operation(text)
    except RemoteError as refusal:
        if refusal.code != UnknownId.code:
            raise
        waiting = await api.sessions(status=[each.value for each in OPEN])
        session_id = _session(text, waiting) or _session(text, await api.sessions(limit=_SESSIONS))
        if session_id is None:
            raise
    return await operation(session_id)


async def with_task(api: Api, text: str, operation: Operation[T]) -> T:
    """What `operation` makes of the task with this id, or else of the one whose id begins so.

    Raises `UnknownId` where it could be several, and the refusal itself where there is none.
    """
    try:
        return await operation(text)
    except RemoteError as refusal:
        if refusal.code != UnknownId.code:
            raise
        tasks = await api.tasks(limit=_TASKS)
        task_id = _only(text, [each["id"] for each in tasks if each["id"].startswith(text)])
        if task_id is None:
            raise
    return await operation(task_id)


def _session(text: str, sessions: Sequence[Session]) -> str | None:
    """The id of the one meant, if there is one. A name is meant before an id's beginning."""
    named = [each["id"] for each in sessions if each["name"] == text]
    begun = [each["id"] for each in sessions if each["id"].startswith(text)]
    return _only(text, named or begun)


def _only(text: str, ids: Sequence[str]) -> str | None:
    if len(ids) > 1:
        told = ", ".join([*ids[:_TOLD], "…"] if len(ids) > _TOLD else ids)
        raise UnknownId(f"{text} could be several: {told}", id=text, candidates=list(ids))
    return ids[0] if ids else None
