"""Odd bodies at /graphql: never a 500, and to strangers always the same 401."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
from rig.api import Api

from wharfinger.manager.api import bodies
from wharfinger.manager.api.graphql.endpoint import LARGEST_BODY

QUERY = "{ viewer { id } }"
ONE = {"query": QUERY}

NOT_ANSWERED: dict[str, tuple[int, bytes]] = {
    "empty": (400, b""),
    "null": (400, b"null"),
    "number": (400, b"7"),
    "string": (400, json.dumps(QUERY).encode()),
    "array": (400, json.dumps([ONE]).encode()),
    "array-empty": (400, b"[]"),
    "batch-500": (400, json.dumps([ONE] * 500).encode()),
    "bom": (400, b"\xef\xbb\xbf" + json.dumps(ONE).encode()),
    "utf-16": (400, json.dumps(ONE).encode("utf-16")),
    "utf-16-le": (400, json.dumps(ONE).encode("utf-16-le")),
    "utf-32": (400, json.dumps(ONE).encode("utf-32")),
    "latin-1": (400, '{"query": "{ agent(id: \\"ü\\") { __typename } }"}'.encode("latin-1")),
    "half-surrogate": (400, b'{"query": "{a}", "variables": {"a": "\\udc00"}}'),
    "nested": (400, b"[" * 200_000),
    "form": (400, b"query=%7Bviewer%7Bid%7D%7D"),
    "bare-graphql": (400, QUERY.encode()),
    "cut": (400, b'{"query": "{ viewer'),
    "nan": (400, b'{"query": "{a}", "variables": {"a": NaN}}'),
    "no-query": (400, b'{"variables": {}}'),
    "query-null": (400, b'{"query": null}'),
    "variables-list": (400, b'{"query": "{a}", "variables": [1]}'),
    "20-MB": (413, b" " * 20_000_000),
}

REFUSED: dict[str, str] = {
    "syntax": "{ viewer {",
    "unknown-field": "{ nothing }",
    "aliases-2000": "{" + " ".join(f"a{n}: viewer {{ id }}" for n in range(2000)) + "}",
    "aliases-51": "{" + " ".join(f"a{n}: viewer {{ id }}" for n in range(51)) + "}",
    "repeated-fields": "{" + "viewer { id } " * 151 + "}",
    "deep": "{ agents " + "{ images " * 400 + "}" * 401,
    "deep-lists": "{ tasks(status: " + "[" * 1500 + "]" * 1500 + ") { nodes { id } } }",
    "doubling-fragments": "{ ...f0 } "
    + " ".join(f"fragment f{n} on Query {{ ...f{n + 1} ...f{n + 1} }}" for n in range(90))
    + " fragment f90 on Query { viewer { id } }",
    "fragment-cycle": "{ ...a } fragment a on Query { ...b } fragment b on Query { ...a }",
    "unknown-fragment": "{ ...nowhere }",
    "two-anonymous": "{ viewer { id } } { viewer { id } }",
    "no-operation": "fragment a on Viewer { id }",
    "subscription": "subscription { viewer { id } }",
    "wrong-argument": '{ tasks(first: "many") { nodes { id } } }',
    "huge-number": "{ tasks(first: 99999999999) { nodes { id } } }",
}


async def post(api: Api, body: bytes, user: str | None) -> tuple[int, object]:
    answer = await api.client.post("/graphql", content=body, headers=api.headers(user))
    return answer.status_code, answer.json()


@pytest.mark.parametrize("user", ["root", "ann"])
async def test_what_is_no_graphql_request_is_refused_with_a_reason(api: Api, user: str) -> None:
    for name, (status, body) in NOT_ANSWERED.items():
        got, answer = await post(api, body, user)
        assert got == status, name
        assert isinstance(answer, dict)
        assert answer["error"]["class"] == "invalid-request", name


@pytest.mark.parametrize("user", ["root", "ann"])
async def test_a_bad_document_is_an_error_and_never_a_defect(api: Api, user: str) -> None:
    for name, document in REFUSED.items():
        status, answer = await post(api, json.dumps({"query": document}).encode(), user)
        assert isinstance(answer, dict)
        errors = [answer["error"]] if status == 400 else [e["extensions"] for e in answer["errors"]]
        assert status in {200, 400}, name
        assert {error["class"] for error in errors} == {"invalid-request"}, (name, errors)
        assert answer.get("data") is None, name


async def test_without_a_token_all_are_refused_alike(api: Api) -> None:
    bodies = [body for _, body in NOT_ANSWERED.values()]
    bodies += [json.dumps({"query": document}).encode() for document in REFUSED.values()]
    bodies += [json.dumps({"query": "{ __schema { types { name } } }"}).encode()]
    answers = {str(await post(api, body, None)) for body in bodies}
    assert len(answers) == 1
    assert answers.pop().startswith("(401,")


async def test_nothing_is_answered_by_get(api: Api) -> None:
    for query in (QUERY, 'mutation { removeAgent(id: "one") { __typename } }'):
        answer = await api.client.get(
            "/graphql", params={"query": query}, headers=api.headers("root")
        )
        assert answer.status_code == 405
    assert api.fleet.views["one"].status == "UP"


async def test_a_body_that_says_it_is_too_large_is_refused_unread(api: Api) -> None:
    """Only the headers are sent, and the answer comes all the same."""
    reader, writer = await asyncio.open_connection("127.0.0.1", api.server.port)
    head = (
        "POST /graphql HTTP/1.1\r\nHost: x\r\n"
        f"Authorization: Bearer {api.tokens['root']}\r\nContent-Length: {LARGEST_BODY + 1}\r\n\r\n"
    )
    writer.write(head.encode())
    async with asyncio.timeout(5):
        assert b" 413 " in await reader.readline()
    writer.close()
    await writer.wait_closed()


async def test_a_body_that_does_not_come_is_not_waited_for(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "READ_SECONDS", 0.05)

    reader, writer = await asyncio.open_connection("127.0.0.1", api.server.port)
    head = (
        "POST /graphql HTTP/1.1\r\nHost: x\r\n"
        f"Authorization: Bearer {api.tokens['root']}\r\nContent-Length: 1000\r\n\r\n"
    )
    writer.write(head.encode() + b'{"query": ')
    async with asyncio.timeout(5):
        assert b" 408 " in await reader.readline()
    writer.close()
    await writer.wait_closed()


async def test_a_body_of_unknown_length_is_refused_where_it_grows_too_large(api: Api) -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(40):
            yield b" " * 65536

    answer = await api.client.post("/graphql", content=endless(), headers=api.headers("root"))
    assert answer.status_code == 413


async def test_a_large_body_within_the_limit_is_answered(api: Api) -> None:
    references = [f"h/app:v{n}" for n in range(20_000)]
    answer = await api.data(
        "mutation($references: [String!]!) {"
        ' preloadImage(targetAgents: ["*"], references: $references) { __typename } }',
        references=references,
    )
    assert answer["preloadImage"]["__typename"] == "BackgroundTaskStarted"
    assert len(api.images.asked[0][1]) == 20_000


async def test_a_nul_character_is_refused_however_it_is_spelled(api: Api) -> None:
    spelled = await api.graphql(r'{ images(reference: "a\u0000b") { nodes { reference } } }')
    passed = await api.graphql(
        "query($r: String) { images(reference: $r) { nodes { reference } } }", r="a\0b"
    )
    for answer in (spelled, passed):
        assert answer["errors"][0]["extensions"]["class"] == "invalid-request"
        assert "reference holds a NUL character" in answer["errors"][0]["message"]


async def test_the_server_answers_after_all_of_that(api: Api) -> None:
    for _, body in NOT_ANSWERED.values():
        await post(api, body, "ann")
    assert (await api.data("{ viewer { name } }"))["viewer"]["name"] == "root"
