"""What people ask of images, and what is planned for them, with agents that answer as told."""

from typing import Any

from aiohttp import web
from rig.session_rows import add_session
from sqlalchemy import Connection, insert, update

from wharfinger.contracts.rpc import (
    SURVEY_PULLS,
    PullSurvey,
    RemovalSurvey,
    SurveyPullsReply,
    SurveyRemovalsReply,
)
from wharfinger.contracts.wire import DiskSpace, ImageEvidence
from wharfinger.domain.platforms import Platform
from wharfinger.domain.progress import Layer
from wharfinger.domain.references import Reference
from wharfinger.domain.slots import Slots
from wharfinger.domain.states import KernelStatus
from wharfinger.manager.access import audit
from wharfinger.manager.access.principal import Principal, Role
from wharfinger.manager.catalogue import resolved
from wharfinger.manager.fleet import agents, inventory
from wharfinger.manager.images.planning import PreloadPlanning, UnloadPlanning
from wharfinger.manager.images.plans import PreloadPlan, UnloadPlan
from wharfinger.manager.images.service import _insert_preload, _insert_unload
from wharfinger.manager.sessions import creating
from wharfinger.manager.sessions.requests import KernelRequest, SessionRequest
from wharfinger.manager.storage import tables
from wharfinger.registry.images import PlatformImage, ResolvedImage

from .conftest import Wharf

ROOT = Principal("u0", "root", Role.SUPERADMIN)
REFERENCE = Reference.parse("h.test/one:v1")
ONE = str(REFERENCE)
OLD, NEW = "sha256:" + "a" * 64, "sha256:" + "b" * 64
AMD64 = Platform("linux", "amd64")


def image(digest: str = NEW, platform: Platform = AMD64) -> ResolvedImage:
    variant = PlatformImage(platform, digest, digest, (Layer(digest, 100),), (digest,))
    return ResolvedImage(REFERENCE, digest, "", (variant,))


def preload(conn: Connection, wharf: Wharf, digest: str) -> str:
    return _insert_preload(conn, wharf.tasks, {"a-1", "away"}, [image(digest)], ROOT)


async def test_a_session_made_after_the_request_has_the_new_digest(wharf: Wharf) -> None:
    """Before any host has pulled it."""

    def ask(conn: Connection) -> None:
        conn.execute(
            insert(tables.users).values(id="u0", name="root", role="superadmin", created_at=0.0)
        )
        resolved.mean(conn, image(OLD))

    def create(conn: Connection) -> str | None:
        request = SessionRequest((KernelRequest(ONE, slots=Slots(1, 1)),))
        view = creating.create(conn, request, [REFERENCE], ROOT)
        return view.kernels[0].row.root_digest

    await wharf.storage.write(ask)
    assert await wharf.storage.write(create) == OLD
    await wharf.storage.write(preload, wharf, NEW)
    assert await wharf.storage.write(create) == NEW


async def test_who_asked_is_entered_with_the_deed(wharf: Wharf) -> None:
    preloading = await wharf.storage.write(preload, wharf, NEW)
    unloading = await wharf.storage.write(
        _insert_unload, wharf.tasks, ["a-1"], [REFERENCE, Reference.parse("h.test/two:v1")], ROOT
    )
    entered = await wharf.storage.read(lambda conn: audit.page(conn, limit=9))
    assert [(each.actor, each.action, each.target) for each in reversed(entered)] == [
        ("root", "image.preload", ONE),
        ("root", "image.unload", ONE),
        ("root", "image.unload", "h.test/two:v1"),
    ]
    assert entered[-1].detail == {"taskId": preloading, "agents": ["a-1", "away"]}
    assert entered[0].detail == {"taskId": unloading, "agents": ["a-1"]}


async def plan_preload(wharf: Wharf, of: ResolvedImage, margin: int = 0) -> list[PreloadPlan]:
    there = await wharf.storage.read(agents.present)
    return list(await PreloadPlanning(wharf.calls, margin).plan(there, [of]))


def answer_pulls(wharf: Wharf, disk: DiskSpace | None, **survey: Any) -> None:
    async def answer(_: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        surveys = tuple(
            PullSurvey(attempt_id=order["attemptId"], **survey) for order in body["orders"]
        )
        return web.json_response(SurveyPullsReply(surveys=surveys, disk=disk).to_wire())

    wharf.agent.answer = answer


async def test_a_preload_is_planned_with_its_bytes_and_the_disk(wharf: Wharf) -> None:
    answer_pulls(wharf, DiskSpace(free=1000, total=5000), bytes_missing=60, bytes_needed=120)
    here, away = await plan_preload(wharf, image())
    assert (here.action, here.bytes_total, here.bytes_missing) == ("pull", 100, 60)
    assert (here.disk_free, here.disk_free_after, here.disk_total) == (1000, 880, 5000)
    assert away.failure is not None
    assert (away.action, away.failure.failure_class) == ("fail", "agent-lost")
    [(path, body, _)] = wharf.agent.calls
    assert (path, body["orders"][0]["diffIds"]) == (SURVEY_PULLS, [NEW])


async def test_a_preload_that_cannot_fit_is_told_before_it_is_asked_for(wharf: Wharf) -> None:
    answer_pulls(wharf, DiskSpace(free=1000, total=5000), bytes_missing=60, bytes_needed=120)
    here, _ = await plan_preload(wharf, image(), margin=900)
    assert here.failure is not None
    assert here.failure.failure_class == "no-space"
    assert "1000 B are free of 4.9 KiB" in here.failure.message


async def test_what_is_there_as_it_should_be_is_planned_to_be_skipped(wharf: Wharf) -> None:
    seen = ImageEvidence(
        image_id="sha256:1",
        tags=(ONE,),
        digests=(f"h.test/one@{NEW}",),
        os="linux",
        architecture="amd64",
    )
    answer_pulls(wharf, None, evidence=seen)
    here, _ = await plan_preload(wharf, image())
    assert (here.action, here.disk_free_after) == ("skip", None)
    moved, _ = await plan_preload(wharf, image(OLD))
    assert moved.action == "pull"


async def test_an_agent_the_image_is_not_for_and_one_that_is_silent_are_told(wharf: Wharf) -> None:
    answer_pulls(wharf, None)
    here, _ = await plan_preload(wharf, image(platform=Platform("linux", "s390x")))
    assert here.failure is not None
    assert here.failure.failure_class == "wrong-platform"

    async def broken(_: web.Request, __: dict[str, Any]) -> web.StreamResponse:
        return web.Response(status=500)

    wharf.agent.answer = broken
    silent, _ = await plan_preload(wharf, image())
    assert silent.failure is not None
    assert silent.failure.failure_class == "agent-lost"
    assert "500" in silent.failure.detail


async def plan_unload(wharf: Wharf, *targets: str, **survey: Any) -> list[UnloadPlan]:
    async def answer(_: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        assert body["wantBytes"]
        usual = {"image_id": "id-1", "root_digests": (NEW,), "going": (ONE,), "bytes_freed": 9}
        surveys = tuple(
            RemovalSurvey.model_validate({"removal_id": order["removalId"], **usual, **survey})
            for order in body["orders"]
        )
        return web.json_response(SurveyRemovalsReply(surveys=surveys).to_wire())

    wharf.agent.answer = answer
    there = await wharf.storage.read(agents.present)
    chosen = [agent for agent in there if agent.id in targets]
    planning = UnloadPlanning(wharf.storage, wharf.calls, ())
    return list(await planning.plan(chosen, [REFERENCE]))


async def test_an_unload_is_planned_with_what_goes_and_what_is_freed(wharf: Wharf) -> None:
    here, away = await plan_unload(wharf, "a-1", "away")
    assert (here.action, here.going, here.bytes_freed) == ("remove", (ONE,), 9)
    assert away.failure is not None
    assert away.failure.failure_class == "agent-lost"
    [here] = await plan_unload(wharf, "a-1", kept_by=("h.test/kept:v1",), bytes_freed=0)
    assert (here.action, here.kept_by) == ("untag", ("h.test/kept:v1",))
    [here] = await plan_unload(wharf, "a-1", image_id=None, going=())
    assert here.action == "skip"
    assert await wharf.storage.read(lambda conn: conn.execute(tables.items.select()).all()) == []


def session(conn: Connection, kernel_id: str, status: KernelStatus, **values: Any) -> None:
    add_session(conn, f"s-{kernel_id}")
    conn.execute(
        update(tables.kernels)
        .where(tables.kernels.c.session_id == f"s-{kernel_id}")
        .values(id=kernel_id, status=status, reference=ONE, root_digest=NEW, **values)
    )


async def test_what_an_unload_would_meet_is_named(wharf: Wharf) -> None:
    await wharf.storage.write(
        lambda conn: session(conn, "k1", KernelStatus.RUNNING, agent_id="a-1")
    )
    users = (
        {"container_id": "1", "name": "ours", "state": "running", "kernel_id": "k1"},
        {"container_id": "2", "name": "web", "state": "exited"},
    )
    [here] = await plan_unload(wharf, "a-1", users=users)
    assert here.failure is not None
    assert (here.action, here.failure.failure_class) == ("fail", "in-use")
    assert (here.kernels, here.containers) == (["k1"], ["web"])


async def test_sessions_that_wait_and_would_find_it_nowhere_else_are_named(wharf: Wharf) -> None:
    def queue(conn: Connection) -> None:
        room = {"cpu": 8.0, "mem": 2**40, "gpu": 0}
        conn.execute(update(tables.agents).values(slots=room, status="UP"))
        for agent_id in ("a-1", "away"):
            inventory.note(conn, agent_id, ONE, "id-1", NEW, 1)
        session(conn, "k1", KernelStatus.PENDING)

    await wharf.storage.write(queue)
    [here] = await plan_unload(wharf, "a-1")
    assert here.queued == []
    await wharf.storage.write(
        lambda conn: conn.execute(
            update(tables.agents).where(tables.agents.c.id == "away").values(cordoned=True)
        )
    )
    [here] = await plan_unload(wharf, "a-1")
    assert here.queued == ["s-k1"]
