"""Exit codes: people script against them."""

from enum import IntEnum
from typing import Final

from wharfinger.cli.display.session_summary import deciding
from wharfinger.client.errors import ServerUnreachable
from wharfinger.client.shapes import Session
from wharfinger.domain.errors import WharfingerError
from wharfinger.domain.states import KernelStatus


class Exit(IntEnum):
    """What the program ends with."""

    OK = 0
    """All done; also when there was nothing to do."""
    FAILED = 1
    """Failed, refused or cancelled."""
    USAGE = 2
    """The command is not written right."""
    PARTIAL = 3
    """Some of it is done, some is not."""
    NOT_ALLOWED = 4
    """No token, a wrong one, or one that may not do this."""
    UNREACHABLE = 5
    """No manager is known, or it cannot be reached."""
    INTERRUPTED = 130
    """Ctrl-C; a task or session that was started goes on."""
    READER_GONE = 141
    """Whoever read the output closed it; a task or session that was started goes on."""


_OF_STATUS: Final = {
    "succeeded": Exit.OK,
    "partially_succeeded": Exit.PARTIAL,
    "failed": Exit.FAILED,
    "cancelled": Exit.FAILED,
}
_OF_CODE: Final = {
    "forbidden": Exit.NOT_ALLOWED,
    "unauthenticated": Exit.NOT_ALLOWED,
    "invalid-reference": Exit.USAGE,
    "invalid-request": Exit.USAGE,
}


def of_status(status: str) -> Exit:
    """For a task that has ended so. Nothing but a true success is 0."""
    return _OF_STATUS.get(status, Exit.FAILED)


def of_session(session: Session) -> Exit:
    """For a session that runs or has ended: success is to run, or to have ended with 0."""
    match session["status"]:
        case KernelStatus.RUNNING:
            return Exit.OK
        case KernelStatus.TERMINATED if all(each["exitCode"] == 0 for each in deciding(session)):
            return Exit.OK
        case _:
            return Exit.FAILED


def of_error(error: WharfingerError) -> Exit:
    """For an operation that ended with this error."""
    if isinstance(error, ServerUnreachable):
        return Exit.UNREACHABLE
    return _OF_CODE.get(error.code, Exit.FAILED)
