"""Rescans of registries that misbehave, and rescans that do not come to their end."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence

import pytest
from aiohttp import web
from rig.catalogue import told_image
from rig.images import OCI_MANIFEST
from rig.odd_registry import Handler, OddRegistry, answer, endless, silent
from rig.people import ROOT
from rig.tasks import events_of, eventually, no_items, within
from sqlalchemy import Connection, update

from wharfinger.domain.errors import RescanBlocked, UnknownRegistry
from wharfinger.domain.states import TaskStatus
from wharfinger.manager.background.port import TaskResult, TaskRun
from wharfinger.manager.catalogue import entries, scanning
from wharfinger.manager.storage import tables

from .conftest import Shelf, told


@pytest.fixture
async def odd() -> AsyncIterator[OddRegistry]:
    async with OddRegistry() as running:
        yield running


def listed(key: str, names: Sequence[str]) -> Handler:
    return answer(json.dumps({key: list(names)}).encode())


def offer(odd: OddRegistry, **tags: Sequence[str]) -> None:
    """List these repositories with these tags; what the tags mean is served otherwise."""
    odd.on("/v2/_catalog", listed("repositories", sorted(tags)))
    for name, those in tags.items():
        odd.on(f"/v2/{name}/tags/list", listed("tags", those))


async def catalogued(shelf: Shelf, odd: OddRegistry, *names: str) -> None:
    def register(conn: Connection) -> None:
        for name in names:
            entries.register(conn, told_image(f"{odd.host}/{name}", "sha256:" + "a" * 64))

    await shelf.storage.write(register)


async def test_a_bad_tag_or_repository_fails_alone(sqlite_shelf: Shelf, odd: OddRegistry) -> None:
    shelf = sqlite_shelf
    odd.image("app", "good")
    odd.manifest("app", "odd", {"mediaType": OCI_MANIFEST, "config": {}, "layers": 7})
    odd.manifest(
        "app",
        "chart",
        {
            "mediaType": OCI_MANIFEST,
            "layers": [],
            "config": {"mediaType": "application/vnd.cncf.helm.config.v1+json"},
        },
    )
    odd.on("/v2/app/manifests/endless", endless())
    offer(odd, app=["good", "odd", "chart", "endless", "gone", "not a tag"], bad=["v1"], none=[])
    odd.on("/v2/bad/tags/list", answer(b"<html>"))
    await shelf.know(odd.host)
    await catalogued(shelf, odd, "app:endless", "app:gone", "bad:v1")

    view = await shelf.rescan()

    assert view.status is TaskStatus.PARTIALLY_SUCCEEDED
    found = told(view)
    assert (found["new"], found["notImages"], found["failed"]) == (1, 1, 5)
    assert {
        (each.get("reference") or each["repository"]).partition("/")[2]: each["class"]
        for each in found["failures"]
    } == {
        "app:odd": "corrupt",
        "app:endless": "unsupported",
        "app:gone": "not-found",
        "app:not a tag": "invalid-reference",
        "bad": "registry-error",
    }
    assert await shelf.standing() == {
        "app:good": "known",
        "app:endless": "known",  # it is listed
        "app:gone": "missing",  # the registry itself says so
        "bad:v1": "known",  # its list could not be read
    }


@pytest.mark.parametrize("status", [401, 403, 404, 405])
async def test_where_the_catalogue_is_nobodys_our_own_repositories_are_read(
    sqlite_shelf: Shelf, odd: OddRegistry, status: int
) -> None:
    odd.image("app", "v1")
    offer(odd, app=["v1"], other=["v1"])
    odd.on("/v2/_catalog", answer(b"", status=status))
    await sqlite_shelf.know(odd.host)
    await catalogued(sqlite_shelf, odd, "app:v0")

    found = await sqlite_shelf.read()

    assert (found["repositoriesFrom"], found["repositories"]) == ("catalogue", 1)
    assert await sqlite_shelf.standing() == {"app:v0": "missing", "app:v1": "known"}


async def test_lists_that_are_cut_short_make_nothing_missing(
    sqlite_shelf: Shelf, odd: OddRegistry
) -> None:
    async def circle(_: web.BaseRequest) -> web.StreamResponse:
        return web.json_response({"tags": ["v1"]}, headers={"Link": "<?n=1>; rel=next"})

    odd.image("app", "v1")
    offer(odd, app=[])
    odd.on("/v2/app/tags/list", circle)
    odd.on("/v2/proxied/tags/list", answer(b"<html>nothing here</html>", status=404))
    await sqlite_shelf.know(odd.host)
    await catalogued(sqlite_shelf, odd, "app:v0", "proxied:v0")

    view = await sqlite_shelf.rescan()

    classes = {each["repository"]: each["class"] for each in told(view)["failures"]}
    assert classes == {f"{odd.host}/app": "registry-error", f"{odd.host}/proxied": "not-found"}
    assert await sqlite_shelf.standing() == {
        "app:v0": "known",
        "app:v1": "known",
        "proxied:v0": "known",
    }


async def test_a_registry_that_goes_away_is_given_up(
    sqlite_shelf: Shelf, odd: OddRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanning, "PATIENCE", 3)
    tags = [f"v{number}" for number in range(50)]
    offer(odd, app=tags)
    for tag in tags:
        odd.on(f"/v2/app/manifests/{tag}", answer(b"", status=503))
    await sqlite_shelf.know(odd.host)

    view = await sqlite_shelf.rescan()

    assert view.status is TaskStatus.FAILED
    assert view.failure is not None
    assert view.failure.failure_class == "registry-error"
    assert told(view)["failures"][-1]["registry"] == odd.host
    assert len(odd.requests("/manifests/")) < 40


async def test_a_rescan_is_cancelled_wherever_it_is(sqlite_shelf: Shelf, odd: OddRegistry) -> None:
    offer(odd, app=["v1"])
    odd.on("/v2/app/manifests/v1", silent())
    await sqlite_shelf.know(odd.host)
    tasks = sqlite_shelf.tasks
    task_id = await sqlite_shelf.catalogue.rescan(odd.host, wait=False, who=ROOT)

    async def asked() -> bool:
        return bool(odd.requests("/manifests/v1"))

    await eventually(asked)
    await tasks.cancel(task_id, by="test")
    await within(events_of(tasks, task_id))

    view = await tasks.show(task_id)
    assert view.status is TaskStatus.CANCELLED
    assert told(view)["tags"] == 1


async def test_a_rescan_does_not_run_beside_downloads(
    sqlite_shelf: Shelf, odd: OddRegistry
) -> None:
    async def download(run: TaskRun) -> TaskResult:
        await run.wait_cancel_requested()
        return TaskResult(TaskStatus.CANCELLED)

    def begin(conn: Connection) -> str:
        return tasks.insert_named(
            conn, name="preload", function="preload", arguments={}, owner_id="ada"
        )

    tasks = sqlite_shelf.tasks
    tasks.register("preload", download, no_items, category="download")
    offer(odd)
    await sqlite_shelf.know(odd.host)
    preload = await sqlite_shelf.storage.write(begin)
    await tasks.launch(preload)

    with pytest.raises(RescanBlocked) as caught:
        await sqlite_shelf.catalogue.rescan(None, wait=False, who=ROOT)
    assert caught.value.detail == {"taskIds": [preload]}
    assert preload in caught.value.message

    rescan = await sqlite_shelf.catalogue.rescan(None, wait=True, who=ROOT)
    assert (await tasks.show(rescan)).status is TaskStatus.PENDING
    await tasks.cancel(preload, by="test")
    await within(events_of(tasks, rescan))
    assert (await tasks.show(rescan)).status is TaskStatus.SUCCEEDED


async def test_an_unknown_registry_is_refused_before_anything_exists(
    sqlite_shelf: Shelf,
) -> None:
    with pytest.raises(UnknownRegistry, match=r"h\.test is not known"):
        await sqlite_shelf.catalogue.rescan("https://h.test", wait=False, who=ROOT)
    assert (await sqlite_shelf.rescan()).message == "no registry is known"


async def test_a_rescan_that_is_another_managers_by_now_writes_nothing_more(
    sqlite_shelf: Shelf, odd: OddRegistry
) -> None:
    shelf, release = sqlite_shelf, asyncio.Event()
    right = answer(b"", Docker_Content_Digest=odd.image("app", "v1"))

    async def waiting(request: web.BaseRequest) -> web.StreamResponse:
        await release.wait()
        return await right(request)

    offer(odd, app=["v1"])
    odd.on("/v2/app/manifests/v1", waiting)
    await shelf.know(odd.host)
    task_id = await shelf.catalogue.rescan(None, wait=False, who=ROOT)

    async def asked() -> bool:
        return bool(odd.requests("/manifests/v1"))

    def take_over(conn: Connection) -> None:
        conn.execute(
            update(tables.tasks)
            .where(tables.tasks.c.id == task_id)
            .values(epoch=tables.tasks.c.epoch + 1, runner="another", lease_until=0.0)
        )

    await eventually(asked)
    await shelf.storage.write(take_over)
    release.set()
    await within(events_of(shelf.tasks, task_id))  # it was abandoned, and is begun anew

    view = await shelf.tasks.show(task_id)
    assert view.status is TaskStatus.SUCCEEDED
    assert told(view)["new"] == 1
    assert await shelf.standing() == {"app:v1": "known"}
