from typing import Any

import pytest

from wharfinger.domain import errors
from wharfinger.domain.errors import WharfingerError
from wharfinger.domain.failures import Failure, FailureClass, FailureError
from wharfinger.manager.api.graphql import failures
from wharfinger.manager.api.graphql.failures import HANDLERS


def named(error: WharfingerError) -> Any:
    """What the first handler that takes it makes of it."""
    for handler in HANDLERS:
        kind = getattr(handler, "exception_type", FailureError)
        if isinstance(error, kind):
            return handler.handle(error, field=None, info=None)  # type: ignore[arg-type]
    return None


@pytest.mark.parametrize(
    ("failure_class", "name"),
    [
        (FailureClass.NOT_FOUND, "ImageNotFound"),
        (FailureClass.AUTH, "RegistryAccessDenied"),
        (FailureClass.NETWORK, "RegistryUnreachable"),
        (FailureClass.REGISTRY_ERROR, "RegistryUnreachable"),
        (FailureClass.RATE_LIMITED, "RegistryUnreachable"),
        (FailureClass.INVALID_REFERENCE, "InvalidReference"),
        (FailureClass.NOT_AN_IMAGE, "Refused"),
        (FailureClass.WRONG_PLATFORM, "Refused"),
        (FailureClass.CORRUPT, "Refused"),
    ],
)
def test_a_failure_is_named_by_its_class(failure_class: FailureClass, name: str) -> None:
    shown = named(FailureError(Failure(failure_class, "it went wrong", "raw text")))
    assert type(shown).__name__ == name
    assert shown.class_ == failure_class.value
    assert shown.message == "it went wrong"
    assert shown.detail == {"raw": "raw text"}


@pytest.mark.parametrize("failure_class", list(FailureClass))
def test_no_failure_class_is_without_a_name(failure_class: FailureClass) -> None:
    assert isinstance(named(FailureError(Failure(failure_class, "x"))), failures.Failure)


@pytest.mark.parametrize(
    "error",
    [
        errors.UnknownSelector("no sgroup:x", known=["sgroup:a"]),
        errors.NoAgents(),
        errors.UnknownRegistry(),
        errors.InvalidReference(),
        errors.Forbidden(),
        errors.UnknownId(),
        errors.Conflict(),
        errors.InvalidRequest(),
    ],
)
def test_a_refusal_is_named_by_its_type(error: WharfingerError) -> None:
    shown = named(error)
    assert type(shown).__name__ == type(error).__name__
    assert (shown.class_, shown.message, shown.detail) == (error.code, error.message, error.detail)


def test_a_defect_has_no_name() -> None:
    assert named(errors.IllegalTransition("queued is not followed by done")) is None
