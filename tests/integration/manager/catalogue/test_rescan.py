"""Rescans of the real docker-registry."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from rig.catalogue import told_image
from rig.images import layer, push, push_index, push_many, random_layer
from rig.people import ROOT
from rig.registry import Registry
from rig.token_server import TokenServer
from sqlalchemy import Connection

from wharfinger.domain.states import TaskStatus
from wharfinger.manager.catalogue import entries, sightings
from wharfinger.manager.catalogue.entries import CatalogueEntry
from wharfinger.manager.catalogue.scanning import BATCH
from wharfinger.manager.catalogue.sightings import Before, Changes, Sightings
from wharfinger.manager.storage.errors import StorageUnavailable

from .conftest import FULL, Shelf, told

ALICE = ("alice", "s3cret-word")


async def test_what_a_registry_has_comes_into_the_catalogue(
    shelf: Shelf, registry: Registry
) -> None:
    amd64 = push(registry.host, "lab/app", "v1", [random_layer("a", 500)], labels={"of": "lab"})
    arm64 = push(registry.host, "lab/app", "arm", [random_layer("b", 900)], architecture="arm64")
    index = push_index(
        registry.host,
        "lab/app",
        "all",
        {
            ("linux", "amd64", ""): amd64,
            ("linux", "arm64", ""): arm64,
            ("unknown", "unknown", ""): arm64,
        },
    )
    push(registry.host, "base", "v1", [layer({})])
    await shelf.know(registry.host)

    assert await shelf.read() == {
        "registry": registry.host,
        "repositoriesFrom": "registry",
        "repositories": 2,
        "tags": 4,
        "new": 4,
        "moved": 0,
        "missing": 0,
        "unchanged": 0,
        "notImages": 0,
        "failed": 0,
        "failures": [],
    }

    found = await shelf.entries()
    assert set(found) == {"base:v1", "lab/app:all", "lab/app:arm", "lab/app:v1"}
    assert found["lab/app:v1"].root_digest == amd64.root_digest
    assert found["lab/app:v1"].labels == {"of": "lab"}
    whole = found["lab/app:all"]
    assert (whole.root_digest, whole.labels) == (index.root_digest, {"of": "lab"})
    assert {(each["architecture"], each["size"]) for each in whole.platforms} == {
        ("amd64", amd64.layers[0].size),
        ("arm64", arm64.layers[0].size),
    }
    assert whole.size == arm64.layers[0].size


async def test_what_moved_moves_what_vanished_is_missing_and_what_is_back_is_known(
    shelf: Shelf, registry: Registry
) -> None:
    push(registry.host, "lab/app", "v1", [random_layer("a", 500)], labels={"old": "label"})
    gone = push(registry.host, "lab/app", "v2", [random_layer("b", 500)])
    push(registry.host, "lab/kept", "v1", [layer({})])
    await shelf.know(registry.host)
    await shelf.read()
    before = await shelf.entries()

    moved = push(registry.host, "lab/app", "v1", [random_layer("c", 500)])
    registry.delete("lab/app", gone.root_digest)
    found = await shelf.read()

    assert (found["new"], found["moved"], found["missing"], found["unchanged"]) == (0, 1, 1, 1)
    after = await shelf.entries()
    assert after["lab/app:v1"].root_digest == moved.root_digest
    assert after["lab/app:v1"].labels == {}
    assert after["lab/app:v2"].status == "missing"
    assert after["lab/app:v2"].root_digest == gone.root_digest
    assert after["lab/kept:v1"].updated_at == before["lab/kept:v1"].updated_at

    push(registry.host, "lab/app", "v2", [random_layer("d", 500)])
    assert (await shelf.read())["new"] == 1
    assert (await shelf.standing())["lab/app:v2"] == "known"


async def test_it_begins_anew_when_the_database_was_away(
    sqlite_shelf: Shelf, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    note, asked = sightings.note, list[int]()

    def away_at_first(conn: Connection, *args: Any) -> Any:
        asked.append(len(asked))
        if len(asked) == 1:
            raise StorageUnavailable
        return note(conn, *args)

    monkeypatch.setattr(sightings, "note", away_at_first)
    push(registry.host, "lab/app", "v1", [layer({})])
    await sqlite_shelf.know(registry.host)
    found = await sqlite_shelf.read()
    assert (found["tags"], found["new"]) == (1, 1)
    assert len(asked) == 2


async def test_what_was_forgotten_stays_so_until_somebody_registers_it(
    shelf: Shelf, registry: Registry
) -> None:
    push(registry.host, "lab/app", "v1", [layer({})])
    await shelf.know(registry.host)
    await shelf.read()
    reference = f"{registry.host}/lab/app:v1"
    await shelf.catalogue.forget(reference, who=ROOT)

    moved = push(registry.host, "lab/app", "v1", [random_layer("a", 500)])
    found = await shelf.read()

    assert (found["tags"], found["new"], found["moved"], found["unchanged"]) == (1, 0, 0, 0)
    assert await shelf.standing() == {"lab/app:v1": "forgotten"}
    entry = await shelf.catalogue.register(reference, who=ROOT)
    assert (entry.status, entry.root_digest) == ("known", moved.root_digest)


async def test_what_is_known_by_digest_is_looked_for_by_digest(
    sqlite_shelf: Shelf, registry: Registry
) -> None:
    shelf = sqlite_shelf
    kept = push(registry.host, "lab/app", "v1", [random_layer("a", 500)])
    gone = push(registry.host, "lab/app", "v2", [random_layer("b", 500)])
    await shelf.know(registry.host)
    for pushed in (kept, gone):
        await shelf.catalogue.register(f"{registry.host}/lab/app@{pushed.root_digest}", who=ROOT)
    registry.delete("lab/app", gone.root_digest)

    assert (await shelf.read())["missing"] == 1

    assert await shelf.standing() == {
        f"lab/app@{kept.root_digest}": "known",
        f"lab/app@{gone.root_digest}": "missing",
        "lab/app:v1": "known",
    }


async def test_a_repository_that_is_gone_has_no_images_left(
    sqlite_shelf: Shelf, registry: Registry
) -> None:
    await sqlite_shelf.know(registry.host)

    def never_pushed(conn: Connection) -> None:
        entries.register(conn, told_image(f"{registry.host}/gone/app:v1", "sha256:" + "0" * 64))

    await sqlite_shelf.storage.write(never_pushed)

    assert (await sqlite_shelf.read())["missing"] == 1


async def test_registries_are_read_with_a_password_and_with_tokens(
    sqlite_shelf: Shelf, tmp_path: Path
) -> None:
    with (
        TokenServer(dict([ALICE])) as tokens,
        Registry(tmp_path / "tokens", token_server=tokens) as by_token,
        Registry(tmp_path / "password", users=dict([ALICE])) as by_password,
    ):
        for registry in (by_token, by_password):
            push(registry.host, "lab/app", "v1", [layer({})], credentials=ALICE)
            await sqlite_shelf.know(registry.host, user=ALICE)
        tokens.asked.clear()

        view = await sqlite_shelf.rescan()

        assert view.status is TaskStatus.SUCCEEDED, view.detail
        assert view.message == "2 new, 0 moved, 0 missing, 0 unchanged"
        assert set(tokens.asked) == {("registry:catalog:*",), ("repository:lab/app:pull",)}


async def test_one_bad_registry_fails_alone(
    sqlite_shelf: Shelf, registry: Registry, tmp_path: Path
) -> None:
    push(registry.host, "lab/app", "v1", [layer({})])
    with Registry(tmp_path / "away") as away:
        await sqlite_shelf.know(registry.host, away.host)

    view = await sqlite_shelf.rescan()

    assert view.status is TaskStatus.PARTIALLY_SUCCEEDED
    assert view.message == "1 new, 0 moved, 0 missing, 0 unchanged; 1 could not be read"
    assert view.detail is not None
    by_host = {each["registry"]: each for each in view.detail["registries"]}
    [failure] = by_host[away.host]["failures"]
    assert (failure["registry"], failure["class"]) == (away.host, "network")
    assert by_host[registry.host]["failures"] == []

    alone = await sqlite_shelf.rescan(away.host)
    assert alone.status is TaskStatus.FAILED
    assert alone.failure is not None
    assert alone.failure.failure_class == "network"


async def test_many_tags_are_read_with_progress_a_batch_at_a_time_and_again_for_nothing(
    sqlite_shelf: Shelf, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    count, differing = (5000, 5000) if FULL else (300, 20)
    await asyncio.to_thread(push_many, registry.host, "lab/many", count, differing=differing)
    await sqlite_shelf.know(registry.host)
    held = _count_held(monkeypatch)

    task_id = await sqlite_shelf.catalogue.rescan(None, wait=False, who=ROOT)
    events = await sqlite_shelf.wait(task_id)

    assert max(held) <= BATCH
    first = await sqlite_shelf.tasks.show(task_id)
    assert first.status is TaskStatus.SUCCEEDED, first.detail
    assert (first.current, first.total, first.unit) == (count + 1, count + 1, "images")
    assert told(first)["new"] == count + 1
    under_way = {event.data["message"] for event in events}
    assert any(
        said.startswith(f"{registry.host}: ") and said.endswith(f" of {count + 1:,} tags")
        for said in under_way
    ), under_way
    before = await sqlite_shelf.entries()
    assert len(before) == count + 1
    asked = len(registry.requests())

    again = await sqlite_shelf.read()

    assert (again["unchanged"], again["new"], again["moved"]) == (count + 1, 0, 0)
    assert _but_seen(await sqlite_shelf.entries()) == _but_seen(before)
    second = registry.requests()[asked:]
    assert [path for method, path in second if method == "GET" and "/manifests/" in path] == []
    assert registry.unchanged() == count + 1


def _count_held(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many tags were held at each write."""
    held: list[int] = []

    def note(
        conn: Connection, task_id: str, epoch: int, before: Before, found: Sightings
    ) -> Changes:
        held.append(len(found.same) + len(found.found) + len(found.unread))
        return write(conn, task_id, epoch, before, found)

    write = sightings.note
    monkeypatch.setattr(sightings, "note", note)
    return held


def _but_seen(found: dict[str, CatalogueEntry]) -> list[dict[str, object]]:
    return [entry.to_json() | {"seenAt": None} for entry in found.values()]
