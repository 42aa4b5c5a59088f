"""Exit codes: people script against them."""

import pytest
from rig.session_answers import kernel, session

from wharfinger.cli.exits import of_error, of_session, of_status
from wharfinger.client.errors import ConnectionLost, NotConfigured, RemoteError, ServerUnreachable
from wharfinger.client.shapes import Session
from wharfinger.domain.errors import InvalidReference, NoAgents, WharfingerError
from wharfinger.domain.states import TASK_TRANSITIONS, KernelStatus


@pytest.mark.parametrize(
    ("status", "code"),
    [("succeeded", 0), ("partially_succeeded", 3), ("failed", 1), ("cancelled", 1), ("new", 1)],
)
def test_of_a_tasks_end(status: str, code: int) -> None:
    assert of_status(status) == code


def test_nothing_but_success_is_zero() -> None:
    zeros = {status for status in TASK_TRANSITIONS.states if of_status(status) == 0}
    assert zeros == {"succeeded"}


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (RemoteError("forbidden", "no"), 4),
        (RemoteError("unknown-id", "no"), 1),
        (RemoteError("network", "the registry is not reachable"), 1),
        (InvalidReference(), 2),
        (NoAgents(), 1),
        (ServerUnreachable(), 5),
        (ConnectionLost(), 5),
        (NotConfigured(), 5),
    ],
)
def test_of_an_error(error: WharfingerError, code: int) -> None:
    assert of_error(error) == code


ENDED_BY_OTHER = kernel("TERMINATED", "k2", exitCode=137, statusInfo="session-ended")


@pytest.mark.parametrize(
    ("made", "code"),
    [
        (session(kernel("RUNNING")), 0),
        (session(kernel("TERMINATED", exitCode=0)), 0),
        (session(kernel("TERMINATED", exitCode=0), ENDED_BY_OTHER), 0),
        (session(kernel("TERMINATED", exitCode=3), ENDED_BY_OTHER), 1),
        (session(kernel("TERMINATED", exitCode=None)), 1),
        (session(kernel("CANCELLED")), 1),
        (session(kernel("ERROR")), 1),
    ],
)
def test_of_a_session(made: Session, code: int) -> None:
    assert of_session(made) == code


def test_no_session_that_is_not_there_yet_is_a_success() -> None:
    zeros = {status for status in KernelStatus if of_session(session(kernel(status))) == 0}
    assert zeros == {KernelStatus.RUNNING}
