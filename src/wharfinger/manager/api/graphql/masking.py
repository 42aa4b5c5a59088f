"""Errors in a GraphQL result: what is the caller's to know, and nothing else."""

from collections.abc import Iterable
from typing import Any, Final

import structlog
from graphql import GraphQLError

from wharfinger.domain.errors import InvalidRequest, WharfingerError
from wharfinger.manager.api.errors import masked, status_of

log = structlog.get_logger()

_DEFECT: Final = 500


def shown(errors: Iterable[GraphQLError], request_id: str) -> list[dict[str, Any]]:
    """The `errors` of the response: `extensions` has class, message and detail of each."""
    return [_shown(error, request_id) for error in errors]


def _shown(error: GraphQLError, request_id: str) -> dict[str, Any]:
    told = _told(error, request_id)
    formatted: dict[str, Any] = {"message": told["message"], "extensions": told}
    if error.locations:
        formatted["locations"] = [
            {"line": place.line, "column": place.column} for place in error.locations
        ]
    if error.path is not None:
        formatted["path"] = error.path
    return formatted


def _told(error: GraphQLError, request_id: str) -> dict[str, Any]:
    cause = error.original_error
    if isinstance(cause, WharfingerError) and status_of(cause) != _DEFECT:
        return cause.to_json()
    if isinstance(cause, RecursionError):
        return InvalidRequest("The document is nested too deeply").to_json()
    # before a field runs there is no path, and what is wrong is the document or its variables; a
    # scalar that refuses a variable is the cause of such an error
    if (cause is None or isinstance(cause, GraphQLError)) and error.path is None:
        return InvalidRequest(error.message).to_json()
    log.error("resolver met a defect", path=error.path, exc_info=cause or error)
    return masked(request_id)
