"""Failure classes and refusals, from the lists that decide."""

from collections.abc import Iterator

from reference_pages import docstrings
from reference_pages.markdown import code, page, table
from wharfinger.domain.errors import IllegalTransition, WharfingerError
from wharfinger.domain.failures import RETRY_DELAYS, SCOPES, FailureClass, Scope
from wharfinger.manager.api.errors import status_of


def failures() -> str:
    """Two tables: why work failed, and why a request was refused."""
    reach = docstrings.of_fields(Scope)
    delays = ", ".join(f"{seconds:g}" for seconds in RETRY_DELAYS)
    return page(
        "Failures and refusals",
        'Every one has the shape `{"class", "message", "detail"}`: a stable class, a sentence a '
        "person can act on, and what the engine or registry said.",
        "## Failure classes",
        "Why an image could not be brought or taken away. The list is closed.",
        table(
            ("class", "concerns", "so"),
            [
                (code(failure), SCOPES[failure].value, reach[SCOPES[failure].name])
                for failure in FailureClass
            ],
        ),
        f"What may pass is tried again after {delays} s; a registry's `Retry-After` wins when it "
        "is longer.",
        "## Refusals",
        "What is refused before anything exists. Over GraphQL these are types of their own; over "
        "plain HTTP they come with this status.",
        table(
            ("class", "status", "meaning"),
            [
                (code(kind.code), str(status_of(kind())), docstrings.first_line(kind))
                for kind in _refusals()
            ],
        ),
    )


def _refusals() -> Iterator[type[WharfingerError]]:
    named = {failure.value for failure in FailureClass}
    for kind in WharfingerError.__subclasses__():
        foreign = kind.__module__ != WharfingerError.__module__
        if not foreign and kind is not IllegalTransition and kind.code not in named:
            yield kind
