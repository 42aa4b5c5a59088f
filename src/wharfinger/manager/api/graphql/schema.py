"""The schema. `python -m wharfinger.manager.api.graphql.schema` prints it; what it prints is
committed as `docs/reference/schema.graphql`."""

import inspect
import sys
from typing import Any

import strawberry
from graphql import GraphQLError
from strawberry.schema.config import StrawberryConfig
from strawberry.types import get_object_definition

from wharfinger.manager.api.graphql.failures import HANDLERS
from wharfinger.manager.api.graphql.guard import guard_root_fields
from wharfinger.manager.api.graphql.limits import DocumentLimits
from wharfinger.manager.api.graphql.mutations import Mutation
from wharfinger.manager.api.graphql.queries import Query
from wharfinger.manager.api.graphql.scalars import SCALARS


class Schema(strawberry.Schema):
    """Leaves the logging of errors to `masking`, which knows what is a defect."""

    def process_errors(self, errors: list[GraphQLError], execution_context: Any = None) -> None:
        """Nothing."""


def describe(*roots: type) -> None:
    """Show the docstrings of root fields to who reads the schema."""
    for root in roots:
        for field in get_object_definition(root, strict=True).fields:
            if field.description is None and field.base_resolver is not None:
                field.description = inspect.getdoc(field.base_resolver.wrapped_func)


describe(Query, Mutation)
guard_root_fields(Query, Mutation)

schema = Schema(
    query=Query,
    mutation=Mutation,
    extensions=[DocumentLimits],
    exception_handlers=HANDLERS,
    config=StrawberryConfig(scalar_map=SCALARS),
)


def sdl() -> str:
    """The schema in GraphQL's own language."""
    return schema.as_str() + "\n"


if __name__ == "__main__":
    sys.stdout.write(sdl())
