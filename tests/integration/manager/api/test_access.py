"""Who is let in, over HTTP."""

from typing import Any

import pytest
from graphql import GraphQLNonNull, GraphQLObjectType, GraphQLUnionType, build_schema
from rig.api import Api

from wharfinger.manager.access.permissions import ROOT_FIELDS, ROUTES, Rule
from wharfinger.manager.api import guard
from wharfinger.manager.api.graphql import guard as graphql_guard
from wharfinger.manager.api.graphql.schema import sdl

SCHEMA = build_schema(sdl())
ARGUMENTS = {
    "String!": '"x"',
    "ID!": '"x"',
    "[String!]!": '["x"]',
    "[KernelSpec!]!": '[{reference: "h/app:v1"}]',
}

CLOSED_ROUTES = [route for route, rule in ROUTES.items() if rule is not Rule.OPEN]


def operation(name: str) -> str:
    """A well-formed operation that asks this root field."""
    root, _, field_name = name.partition(".")
    kind = SCHEMA.type_map[root]
    assert isinstance(kind, GraphQLObjectType)
    field = kind.fields[field_name]
    given = [
        f"{argument}: {ARGUMENTS[str(definition.type)]}"
        for argument, definition in field.args.items()
        if isinstance(definition.type, GraphQLNonNull) and not definition.default
    ]
    call = f"{field_name}({', '.join(given)})" if given else field_name
    failed = (
        " ... on Failure { class message detail }" if isinstance(_named(field.type), _Union) else ""
    )
    return f"{root.lower()} {{ answer: {call} {{ __typename{failed} }} }}"


_Union = GraphQLUnionType


def _named(kind: Any) -> Any:
    while hasattr(kind, "of_type"):
        kind = kind.of_type
    return kind


async def test_no_root_field_is_answered_without_a_token(api: Api) -> None:
    for name in ROOT_FIELDS:
        answer = await api.client.post("/graphql", json={"query": operation(name)})
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        error = answer.json()["error"]
        assert error["class"] == "forbidden"
        assert error["message"].startswith("No token was sent")
        assert error["detail"] == {"needs": "token"}


async def test_no_root_field_is_answered_to_a_wrong_token(api: Api) -> None:
    headers = {"Authorization": "Bearer whu_wrong"}
    for name in ROOT_FIELDS:
        body = {"query": operation(name)}
        answer = await api.client.post("/graphql", json=body, headers=headers)
        assert answer.status_code == 401
        assert answer.json()["error"]["detail"] == {"needs": "valid-token"}


async def test_a_plain_user_is_told_what_is_missing(api: Api) -> None:
    for name, rule in ROOT_FIELDS.items():
        if rule is not Rule.SUPERADMIN:
            continue
        answer = await api.graphql(operation(name), user="ann")
        refusal = (answer.get("data") or {}).get("answer") or answer["errors"][0]["extensions"]
        assert refusal["class"] == "forbidden", name
        assert refusal["message"].startswith("Only a superadmin may use")
        assert refusal["detail"] == {"needs": "superadmin", "role": "user"}
    refused = await api.graphql(operation("Mutation.preloadImage"), user="ann")
    assert "may use preload image;" in str(refused)
    assert api.images.asked == []
    assert api.fleet.views["one"].cordoned is False


async def test_a_plain_user_may_ask_the_rest(api: Api) -> None:
    for name, rule in ROOT_FIELDS.items():
        if rule is Rule.SUPERADMIN:
            continue
        answered = (await api.data(operation(name), user="ann"))["answer"]
        if isinstance(answered, dict) and "class" in answered:
            # of what is not there, or not theirs
            assert answered["class"] in {"unknown-id", "forbidden"}, name
            assert "superadmin" not in str(answered.get("detail", {}).get("needs")), name


async def test_no_route_but_health_is_answered_without_a_token(api: Api) -> None:
    for method, path in CLOSED_ROUTES:
        for header in ("", "Bearer", "Basic eDp5", "whu_x"):
            headers = {"Authorization": header}
            answer = await api.client.request(method, path, headers=headers)
            assert answer.status_code == 401, path
            assert answer.json()["error"]["detail"] == {"needs": "token"}


async def test_no_route_but_health_is_answered_to_a_wrong_token(api: Api) -> None:
    headers = {"Authorization": "Bearer wrong"}
    for method, path in CLOSED_ROUTES:
        answer = await api.client.request(method, path, headers=headers)
        # an agent's bearer is judged with what it says
        assert answer.status_code == (422 if path.startswith("/agents/") else 401), path


async def test_another_method_is_refused_after_the_token_was_asked_for(api: Api) -> None:
    for method in ("GET", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"):
        assert (await api.client.request(method, "/graphql")).status_code == 401
        answer = await api.client.request(method, "/graphql", headers=api.headers("root"))
        assert answer.status_code == 405


async def test_what_is_not_there_is_404_as_json(api: Api) -> None:
    for path in ("/", "/graphql/", "/nothing", "/docs", "/openapi.json", "/%00"):
        answer = await api.client.get(path, headers=api.headers("root"))
        assert answer.status_code == 404
        assert answer.json()["error"]["class"] == "unknown-id"


async def test_a_route_that_is_not_in_the_table_is_refused(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "_PATTERNS", {})
    answer = await api.client.get("/healthz", headers=api.headers("root"))
    assert answer.status_code == 500
    assert answer.json()["error"]["class"] == "internal"


async def test_a_root_field_that_is_not_in_the_table_is_refused(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graphql_guard, "ROOT_FIELDS", {})
    answer = await api.graphql("{ viewer { id } }")
    assert answer["data"] is None
    assert answer["errors"][0]["extensions"]["class"] == "internal"


async def test_a_resolver_that_never_asked_for_the_owner_gives_nothing_away(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graphql_guard, "ROOT_FIELDS", {"Query.agents": Rule.OWNER})
    answer = await api.graphql("{ agents { id } }")
    assert answer["data"] is None
    assert answer["errors"][0]["extensions"]["class"] == "internal"


async def test_a_route_that_never_asked_for_the_owner_gives_nothing_away(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "ROUTES", {("GET", "/metrics"): Rule.OWNER})
    answer = await api.client.get("/metrics", headers=api.headers("root"))
    assert answer.status_code == 500
    assert "wharfinger_http" not in answer.text
