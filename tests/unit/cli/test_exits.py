"""Exit codes: people script against them."""

import pytest

from wharfinger.cli.exits import of_error, of_status
from wharfinger.client.errors import ConnectionLost, NotConfigured, RemoteError, ServerUnreachable
from wharfinger.domain.errors import InvalidReference, NoAgents, WharfingerError
from wharfinger.domain.states import TASK_TRANSITIONS


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
