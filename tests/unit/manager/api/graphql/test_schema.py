from pathlib import Path

import pytest
from graphql import GraphQLInterfaceType, GraphQLUnionType, build_schema, parse, validate

from wharfinger.client import documents, image_documents
from wharfinger.manager.api.graphql.limits import excess
from wharfinger.manager.api.graphql.schema import sdl

COMMITTED = Path(__file__).parents[5] / "docs" / "reference" / "schema.graphql"


def test_the_committed_schema_is_current() -> None:
    assert COMMITTED.read_text(encoding="utf-8") == sdl(), (
        "regenerate it: python -m wharfinger.manager.api.graphql.schema"
        " > docs/reference/schema.graphql"
    )


def test_every_union_is_one_success_and_named_failures() -> None:
    built = build_schema(sdl())
    failure = built.type_map["Failure"]
    assert isinstance(failure, GraphQLInterfaceType)
    for union in built.type_map.values():
        if isinstance(union, GraphQLUnionType):
            successes = [kind.name for kind in union.types if failure not in kind.interfaces]
            assert len(successes) == 1, union.name
            assert "Forbidden" in {kind.name for kind in union.types}, union.name


def test_everything_that_may_fail_by_name_shows_its_description() -> None:
    built = build_schema(sdl())
    for root in (built.query_type, built.mutation_type):
        assert root is not None
        assert all(field.description for field in root.fields.values())


ASKED = {**vars(documents), **vars(image_documents)}


@pytest.mark.parametrize(
    "name", [name for name in ASKED if name.isupper() and not name.startswith("_")]
)
def test_what_the_client_asks_is_valid_and_within_the_limits(name: str) -> None:
    document = parse(ASKED[name])
    assert validate(build_schema(sdl()), document) == []
    assert excess(document) is None
