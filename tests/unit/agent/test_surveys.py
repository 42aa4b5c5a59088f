"""What removals and pulls would meet, told by an engine that misbehaves."""

import asyncio

import pytest
from rig.containers_in_memory import IMAGE_ID, ContainersInMemory
from rig.misbehaving_engine import DEAD, DIGEST, NAME, PINNED, MisbehavingEngine

from wharfinger.agent.chains import LayerChains
from wharfinger.agent.engine.port import LocalImage
from wharfinger.agent.ours import AGENT, CLUSTER, KERNEL, Ours
from wharfinger.agent.pull_survey import PullSurveyor
from wharfinger.agent.removal_survey import RemovalSurveyor
from wharfinger.agent.room import Room
from wharfinger.contracts.rpc import (
    ImageUser,
    PullOrder,
    PullPolicy,
    PullSurvey,
    RemovalOrder,
    RemovalSurvey,
    SurveyPullsReply,
)
from wharfinger.contracts.wire import DiskSpace, LayerSize
from wharfinger.domain.failures import FailureClass
from wharfinger.domain.platforms import Platform

TAG = f"{NAME}:v1"
OTHER = f"{NAME}:other"
LINUX = Platform("linux", "amd64")


def image(*tags: str, diff_ids: tuple[str, ...] = ("base", "top")) -> LocalImage:
    return LocalImage(IMAGE_ID, tags, (PINNED,), 1, LINUX, diff_ids)


def engine_with(held: LocalImage) -> ContainersInMemory:
    names = (held.image_id, *held.tags, *held.digests)
    return ContainersInMemory(held=dict.fromkeys(names, held), sizes={held.image_id: (100, 7)})


def joined() -> Ours:
    ours = Ours("a1")
    ours.join("here")
    return ours


async def removals(
    engine: MisbehavingEngine, *references: str, want_bytes: bool = True, seconds: float = 5
) -> list[RemovalSurvey]:
    surveyor = RemovalSurveyor(engine, joined(), LayerChains(engine))
    orders = [RemovalOrder(removal_id=each, reference=each) for each in references]
    return await surveyor.survey(orders, seconds, want_bytes=want_bytes)


async def test_a_removal_is_told_by_name_user_and_bytes() -> None:
    engine = engine_with(image(TAG))
    mine = {CLUSTER: "here", AGENT: "a1", KERNEL: "k1"}
    engine.put("kernel", labels=mine, state="running")
    engine.put("foreign", labels=mine | {CLUSTER: "elsewhere"}, state="exited")
    engine.put("apart", image_id="sha256:" + "9" * 64)
    [survey] = await removals(engine, TAG)
    assert survey == RemovalSurvey(
        removal_id=TAG,
        image_id=IMAGE_ID,
        root_digests=(DIGEST,),
        going=(TAG, PINNED),
        kept_by=(),
        users=(
            ImageUser(container_id="id0", name="kernel", state="running", kernel_id="k1"),
            ImageUser(container_id="id1", name="foreign", state="exited"),
        ),
        bytes_freed=107,
    )


async def test_a_name_that_stays_holds_every_byte() -> None:
    [survey] = await removals(engine_with(image(TAG, OTHER)), TAG)
    assert (survey.going, survey.kept_by) == ((TAG,), (OTHER, PINNED))
    assert survey.bytes_freed == 0


async def test_layers_another_image_has_are_not_freed() -> None:
    engine = engine_with(image(TAG))
    engine.held["id-2"] = LocalImage("id-2", (), (), 1, LINUX, ("base", "elsewhere"))
    [survey] = await removals(engine, TAG)
    assert survey.bytes_freed == 7


async def test_bytes_are_told_only_where_they_are_wanted_and_known() -> None:
    engine = engine_with(image(TAG))
    [unasked] = await removals(engine, TAG, want_bytes=False)
    engine.sizes.clear()
    [untold] = await removals(engine, TAG)
    assert [unasked.bytes_freed, untold.bytes_freed] == [None, None]
    assert untold.image_id == IMAGE_ID


async def test_what_is_not_there_or_no_reference_is_said_of_that_one_alone() -> None:
    engine = engine_with(image(TAG))
    there, absent, odd = await removals(engine, TAG, f"{NAME}:absent", "UPPER/case")
    assert there.image_id == IMAGE_ID
    assert absent == RemovalSurvey(removal_id=f"{NAME}:absent")
    assert odd.failure is not None
    assert odd.failure.failure_class is FailureClass.INVALID_REFERENCE


async def test_an_engine_that_does_not_list_containers_fails_every_survey() -> None:
    engine = engine_with(image(TAG))
    engine.refused["containers"] = DEAD
    assert [
        each.failure is not None and each.failure.message
        for each in await removals(engine, TAG, OTHER)
    ] == [str(DEAD)] * 2


@pytest.mark.parametrize("slow", ["containers", "inspect"])
async def test_an_engine_that_never_answers_is_not_waited_for(slow: str) -> None:
    class Hanging(MisbehavingEngine):
        async def inspect(self, name: str) -> LocalImage | None:  # noqa: ARG002
            await asyncio.Event().wait()
            raise AssertionError

    engine: MisbehavingEngine = Hanging()
    if slow == "containers":
        engine = ContainersInMemory(held_up={slow: asyncio.Event()})
    [survey] = await removals(engine, TAG, want_bytes=False, seconds=0.05)
    assert survey.failure is not None
    assert survey.failure.message == "the engine did not answer in time"


async def test_layers_that_are_not_known_in_time_cost_the_bytes_alone() -> None:
    class SlowToList(MisbehavingEngine):
        async def images(self) -> list[LocalImage]:
            await asyncio.Event().wait()
            raise AssertionError

    engine = SlowToList(held={TAG: image(TAG)})
    [survey] = await removals(engine, TAG, seconds=0.1)
    assert (survey.image_id, survey.bytes_freed, survey.failure) == (IMAGE_ID, None, None)


def pull(*diff_ids: str, reference: str = TAG) -> PullOrder:
    return PullOrder(
        attempt_id=reference,
        reference=reference,
        root_digest=DIGEST,
        layers=(
            LayerSize(digest="sha256:" + "b" * 64, size=50),
            LayerSize(digest="sha256:" + "c" * 64, size=3),
        ),
        diff_ids=diff_ids,
        policy=PullPolicy.PRELOAD,
    )


async def pulls(engine: MisbehavingEngine, *orders: PullOrder) -> SurveyPullsReply:
    room = Room(engine, LayerChains(engine))
    return await PullSurveyor(engine, room, engine.describe).survey(orders, 5)


async def bytes_of(engine: MisbehavingEngine, order: PullOrder) -> tuple[int, int, bool]:
    (survey,) = (await pulls(engine, order)).surveys
    return survey.bytes_missing, survey.bytes_needed, survey.layers_known


async def test_a_pull_misses_the_layers_after_those_that_are_there() -> None:
    engine = MisbehavingEngine(space=DiskSpace(free=1, total=2))
    engine.held["id-2"] = LocalImage("id-2", (), (), 1, LINUX, ("base", "elsewhere"))
    assert await bytes_of(engine, pull("base", "top")) == (3, 6, True)
    assert await bytes_of(engine, pull("new", "top")) == (53, 100, True)
    assert await bytes_of(engine, pull()) == (53, 100, False)
    assert (await pulls(engine)).disk == engine.space


async def test_an_image_that_is_there_misses_nothing_and_is_shown() -> None:
    engine = engine_with(image(TAG))
    (survey,) = (await pulls(engine, pull())).surveys
    assert (survey.bytes_missing, survey.layers_known) == (0, True)
    assert survey.evidence is not None
    assert (survey.evidence.image_id, survey.evidence.digests) == (IMAGE_ID, (PINNED,))


async def test_what_has_the_tag_now_is_shown_where_the_image_is_not_there() -> None:
    older = LocalImage("id-1", (TAG,), (f"{NAME}@sha256:{'0' * 64}",), 1, LINUX)
    (survey,) = (await pulls(MisbehavingEngine(held={TAG: older}), pull())).surveys
    assert survey.evidence is not None
    assert survey.evidence.image_id == "id-1"
    assert survey.bytes_missing == 53


async def test_no_reference_fails_alone_and_a_dead_engine_fails_all() -> None:
    engine = engine_with(image(TAG))
    well, odd = (await pulls(engine, pull(), pull(reference="UPPER/case"))).surveys
    assert well.failure is None
    assert odd.failure is not None
    assert odd.failure.failure_class is FailureClass.INVALID_REFERENCE
    engine.dead = True
    (survey,) = (await pulls(engine, pull())).surveys
    assert survey == PullSurvey(attempt_id=TAG, failure=survey.failure)
    assert survey.failure is not None
    assert survey.failure.failure_class is FailureClass.ENGINE_ERROR
