"""Translating what a registry answers into the closed list of failure classes."""

import email.utils
import json
import re
import time
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from wharfinger.domain.failures import Failure, FailureClass, FailureError

RAW_LIMIT: Final = 2000
"""Characters kept of an answer's text."""

_RETRY_AFTER_LIMIT: Final = 24 * 3600.0
_DENIED: Final = frozenset({"DENIED", "UNAUTHORIZED"})
_NOT_OFFERED: Final = frozenset({HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.NOT_IMPLEMENTED})
_DIGITS = re.compile(r"[0-9]{1,9}")


class PassingFailure(FailureError):
    """A failure that may be gone within seconds: worth a quick second try."""


def failure(
    failure_class: FailureClass, message: str, raw: str = "", retry_after: float | None = None
) -> FailureError:
    """A final failure with its sentence and the raw text it came with."""
    return FailureError(Failure(failure_class, message, raw[:RAW_LIMIT], retry_after))


def passing(
    failure_class: FailureClass, message: str, raw: str = "", retry_after: float | None = None
) -> PassingFailure:
    """The same for a failure that may pass."""
    return PassingFailure(Failure(failure_class, message, raw[:RAW_LIMIT], retry_after))


def refusal(
    status: int, headers: Mapping[str, str], body: bytes, *, asked: str, user: str | None
) -> FailureError:
    """What an answer other than 200 means, when sign-in has been tried as well as it can be.

    `asked` says what was asked for (`H/app:v1`, `registry H`). The body's error codes weigh more
    than the status, since registries and what stands before them disagree on the latter.
    """
    codes = error_codes(body)
    raw = f"HTTP {status}: {body.decode(errors='replace').strip()}"
    wait = retry_after(headers)
    if status == HTTPStatus.TOO_MANY_REQUESTS or "TOOMANYREQUESTS" in codes:
        return passing(
            FailureClass.RATE_LIMITED,
            f"{asked}: the registry takes no more requests for now"
            + (f"; it asks to wait {wait:.0f} s" if wait else ""),
            raw,
            wait,
        )
    if status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN} or codes & _DENIED:
        who = f"user {user!r} has" if user else "without a user name there is"
        return failure(
            FailureClass.AUTH, f"{asked}: {who} no access, or there is no such repository", raw
        )
    if status == HTTPStatus.NOT_FOUND:
        return failure(FailureClass.NOT_FOUND, f"{asked}: the registry does not have it", raw)
    text = f"{asked}: the registry answered HTTP {status}"
    if status in _NOT_OFFERED or "UNSUPPORTED" in codes:
        return failure(FailureClass.UNSUPPORTED, f"{text}: it does not offer this", raw)
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return passing(FailureClass.REGISTRY_ERROR, text, raw, wait)
    return failure(FailureClass.REGISTRY_ERROR, text, raw)


def error_codes(body: bytes) -> frozenset[str]:
    """The codes of the distribution specification's error body; none when it is something else."""
    document = read_json(body)
    errors = document.get("errors") if isinstance(document, dict) else None
    if not isinstance(errors, list):
        return frozenset()
    return frozenset(str(each.get("code", "")).upper() for each in errors if isinstance(each, dict))


def read_json(body: bytes | bytearray) -> Any:
    """The document, or None when this is no JSON (or nested beyond reason)."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds the other side asks to wait: a number or a date, at most a day."""
    value = headers.get("Retry-After", "").strip()
    if _DIGITS.fullmatch(value):
        return min(float(value), _RETRY_AFTER_LIMIT)
    try:
        at = email.utils.parsedate_to_datetime(value).timestamp()
    except (ValueError, OverflowError):
        return None
    return min(max(at - time.time(), 0.0), _RETRY_AFTER_LIMIT)
