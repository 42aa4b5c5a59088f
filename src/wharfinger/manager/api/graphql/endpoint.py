"""`POST /graphql`: one operation per request, as JSON."""

from dataclasses import dataclass
from typing import Any, Final

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse
from strawberry.schema.exceptions import CannotGetOperationTypeError

from wharfinger.domain.errors import InvalidRequest
from wharfinger.manager.api.bodies import parse_json, read_body
from wharfinger.manager.api.dependencies import Caller, TheServices
from wharfinger.manager.api.graphql.context import Context
from wharfinger.manager.api.graphql.masking import shown
from wharfinger.manager.api.graphql.schema import schema

router = APIRouter()

LARGEST_BODY: Final = 1024 * 1024
"""Bytes."""


@dataclass(frozen=True, slots=True)
class Operation:
    """What a request asks to run."""

    query: str
    variables: dict[str, Any]
    name: str | None


@router.post("/graphql")
async def graphql(request: Request, services: TheServices, caller: Caller) -> JSONResponse:
    """200 with `data` or `errors` for whatever is a GraphQL request, 400 for what is none."""
    operation = parse_operation(await read_body(request, LARGEST_BODY))
    request_id: str = request.state.request_id
    try:
        result = await schema.execute(
            operation.query,
            variable_values=operation.variables,
            operation_name=operation.name,
            context_value=Context(services, caller, request_id),
        )
    except CannotGetOperationTypeError as error:
        raise InvalidRequest(error.as_http_error_reason()) from None
    answer: dict[str, Any] = {"data": result.data}
    if result.errors:
        answer["errors"] = shown(result.errors, request_id)
    return JSONResponse(answer)


def parse_operation(body: bytes) -> Operation:
    """Read `{query, variables, operationName}`; raises `InvalidRequest` saying what is wrong."""
    match parse_json(body):
        case list():
            raise InvalidRequest("Batches are not answered: send one operation per request")
        case dict() as asked:
            pass
        case _:
            raise InvalidRequest("The body is not a JSON object with `query`")
    query = asked.get("query")
    if not isinstance(query, str) or not query.strip():
        raise InvalidRequest("`query` is not a string with a GraphQL document")
    variables = asked.get("variables")
    if not isinstance(variables, dict | None):
        raise InvalidRequest("`variables` is not a JSON object")
    name = asked.get("operationName")
    if not isinstance(name, str | None):
        raise InvalidRequest("`operationName` is not a string")
    return Operation(query, variables or {}, name or None)
