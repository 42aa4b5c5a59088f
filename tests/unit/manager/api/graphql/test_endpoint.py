import json
from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from wharfinger.domain.errors import InvalidRequest
from wharfinger.manager.api.graphql.endpoint import Operation, parse_operation

JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(
            st.sampled_from(["query", "variables", "operationName"]) | st.text(), inner
        )
    ),
)


@given(st.binary() | JSON.map(lambda document: json.dumps(document).encode()))
@example(b"[" * 100_000)
@example(b'{"query": "{a}", "variables": {"a": ' + b"9" * 5000 + b"}}")
@example(b'{"query": "{a}", "variables": {"a": NaN}}')
@example(b'{"query": "{a}", "variables": {"a": "\\ud800"}}')
@example(b'{"query": "\\ud800"}')
def test_any_body_is_an_operation_or_an_invalid_request(body: bytes) -> None:
    with suppress(InvalidRequest):
        operation = parse_operation(body)
        operation.query.encode()
        json.dumps(operation.variables, allow_nan=False, ensure_ascii=False).encode()


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"", "not JSON"),
        (b"null", "not a JSON object"),
        (b'"{ viewer { id } }"', "not a JSON object"),
        (b"[]", "Batches are not answered"),
        (b'[{"query": "{ viewer { id } }"}]', "Batches are not answered"),
        (b'\xef\xbb\xbf{"query": "{ viewer { id } }"}', "not JSON"),
        ('{"query": "{ viewer { id } }"}'.encode("utf-16"), "not UTF-8"),
        ('{"query": "{ viewer { id } }"}'.encode("utf-16-le"), "not JSON"),
        ('{"query": "{ viewer { id } }"}'.encode("utf-32"), "not UTF-8"),
        (b"{}", "`query` is not a string"),
        (b'{"query": null}', "`query` is not a string"),
        (b'{"query": "  "}', "`query` is not a string"),
        (b'{"query": ["{ a }"]}', "`query` is not a string"),
        (b'{"query": "{ a }", "variables": []}', "`variables` is not a JSON object"),
        (b'{"query": "{ a }", "variables": "{}"}', "`variables` is not a JSON object"),
        (b'{"query": "{ a }", "operationName": 7}', "`operationName` is not a string"),
    ],
)
def test_what_is_wrong_with_a_body_is_said(body: bytes, problem: str) -> None:
    with pytest.raises(InvalidRequest, match=problem):
        parse_operation(body)


def test_absent_and_null_mean_the_same() -> None:
    wanted = Operation("{ a }", {}, None)
    assert parse_operation(b'{"query": "{ a }"}') == wanted
    assert parse_operation(b'{"query":"{ a }","variables":null,"operationName":null}') == wanted
