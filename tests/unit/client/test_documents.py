"""The documents the client sends fit the schema the manager serves."""

import pytest
from graphql import parse, validate

from wharfinger.client import documents, image_documents
from wharfinger.manager.api.graphql.schema import schema

DOCUMENTS = {
    name: text
    for module in (documents, image_documents)
    for name, text in vars(module).items()
    if name.isupper() and name[0] != "_"
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_fits_the_schema(name: str) -> None:
    assert validate(schema._schema, parse(DOCUMENTS[name])) == []


def test_every_root_field_is_used() -> None:
    text = " ".join(DOCUMENTS.values())
    roots = [schema._schema.query_type, schema._schema.mutation_type]
    fields = {field for root in roots if root for field in root.fields}
    assert {field for field in fields if field not in text} == set()
