"""The table of permissions against the real routes and the real schema."""

import asyncio
from typing import cast

import pytest
from fastapi import FastAPI
from fastapi.routing import iter_route_contexts
from graphql import build_schema
from rig.api import told_services
from strawberry.types import get_object_definition

from wharfinger.manager.access.permissions import ROOT_FIELDS, ROUTES, Rule
from wharfinger.manager.api.app import create_app
from wharfinger.manager.api.graphql.guard import RootGuard
from wharfinger.manager.api.graphql.mutations import Mutation
from wharfinger.manager.api.graphql.queries import Query
from wharfinger.manager.api.graphql.schema import sdl
from wharfinger.manager.api.services import Tasks
from wharfinger.manager.storage.port import Storage


def application() -> FastAPI:
    nothing = object()
    return create_app(told_services(cast("Storage", nothing), cast("Tasks", nothing)))


def test_every_route_is_in_the_table_and_every_entry_is_a_route() -> None:
    routes = {
        (method, route.path)
        for route in iter_route_contexts(application().routes)
        for method in route.methods or {"(any)"}
    }
    assert routes == set(ROUTES)


def test_every_root_field_is_in_the_table_and_every_entry_is_a_root_field() -> None:
    built = build_schema(sdl())
    roots = (built.query_type, built.mutation_type, built.subscription_type)
    fields = {f"{root.name}.{field}" for root in roots if root is not None for field in root.fields}
    assert fields == set(ROOT_FIELDS)


@pytest.mark.parametrize("root", [Query, Mutation])
def test_every_root_field_is_guarded(root: type) -> None:
    for field in get_object_definition(root, strict=True).fields:
        assert any(isinstance(extension, RootGuard) for extension in field.extensions), field.name


def test_only_health_is_open_and_only_ingest_is_the_agents() -> None:
    open_paths = {path for (_, path), rule in ROUTES.items() if rule is Rule.OPEN}
    agents_paths = {path for (_, path), rule in ROUTES.items() if rule is Rule.AGENT}
    assert open_paths == {"/healthz", "/readyz"}
    assert agents_paths == {"/agents/register", "/agents/report"}


def test_whatever_changes_the_cluster_needs_a_superadmin_or_the_owner() -> None:
    changing = {name: rule for name, rule in ROOT_FIELDS.items() if name.startswith("Mutation.")}
    # what is made by it is its maker's own, within the limits of that user
    assert changing.pop("Mutation.createSession") is Rule.AUTHENTICATED
    assert set(changing.values()) == {Rule.SUPERADMIN, Rule.OWNER}


def test_the_application_is_made_without_a_running_loop() -> None:
    with pytest.raises(RuntimeError):
        asyncio.get_running_loop()
    assert application().title == "Wharfinger"
