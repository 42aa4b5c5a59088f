"""Unloads by agents that answer well, badly and not at all."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from aiohttp import web
from rig.people import ROOT
from rig.rows import insert_task
from rig.session_rows import add_session
from rig.tasks import eventually, within
from sqlalchemy import Connection, insert, update

from wharfinger.contracts.rpc import (
    REMOVE_IMAGES,
    SURVEY_REMOVALS,
    RemovalAnswer,
    RemovalOutcome,
    RemovalSurvey,
    RemoveImagesReply,
    SurveyRemovalsReply,
)
from wharfinger.contracts.wire import FailureReport
from wharfinger.domain.failures import FailureClass
from wharfinger.domain.gate import ImageKeys, PreparationKind
from wharfinger.domain.progress import Phase
from wharfinger.domain.sessions import BOUND, WITH_CONTAINER
from wharfinger.domain.states import ItemStatus, KernelStatus, TaskStatus
from wharfinger.manager.fleet import agents, inventory
from wharfinger.manager.fleet.service import CHANGED
from wharfinger.manager.gate import preparations
from wharfinger.manager.images import items as rows
from wharfinger.manager.images.items import NewItem
from wharfinger.manager.images.listing import UNLOAD
from wharfinger.manager.storage import tables

from .conftest import Wharf

ONE, TWO = "h.test/one:v1", "h.test/two:v1"
IN_USE = FailureReport(failure_class=FailureClass.IN_USE, message="used by web (running)")
BUSY = FailureReport(failure_class=FailureClass.ENGINE_ERROR, message="busy")


def surveyed(reference: str, **differing: Any) -> RemovalSurvey:
    usual = {"image_id": f"id of {reference}", "root_digests": (), "going": (reference,)}
    return RemovalSurvey.model_validate({"removal_id": "", **usual, **differing})


class Remover:
    """Answers each removal by `of(reference, how often its id was asked for)`, and its survey by
    `survey(reference)`: an image that nobody uses, named after its reference."""

    def __init__(
        self,
        of: Callable[[str, int], RemovalAnswer | None],
        survey: Callable[[str], RemovalSurvey | None] = surveyed,
    ) -> None:
        self.ids: list[str] = []
        self.image_ids: list[str | None] = []
        self._of = of
        self._survey = survey

    async def __call__(self, request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        if request.path == SURVEY_REMOVALS:
            surveys = SurveyRemovalsReply(surveys=tuple(self._surveys(body["orders"])))
            return web.json_response(surveys.to_wire())
        self.image_ids += [order["imageId"] for order in body["orders"]]
        reply = RemoveImagesReply(answers=tuple(self._answers(body["orders"])))
        return web.json_response(reply.to_wire())

    def _surveys(self, orders: Iterable[dict[str, str]]) -> Iterable[RemovalSurvey]:
        for order in orders:
            survey = self._survey(order["reference"])
            if survey is not None:
                yield survey.model_copy(update={"removal_id": order["removalId"]})

    def _answers(self, orders: Iterable[dict[str, str]]) -> Iterable[RemovalAnswer]:
        for order in orders:
            self.ids.append(order["removalId"])
            asked = self.ids.count(order["removalId"])
            answer = self._of(order["reference"], asked)
            if answer is not None:
                yield answer.model_copy(update={"removal_id": order["removalId"]})


def said(outcome: RemovalOutcome, failure: FailureReport | None = None) -> RemovalAnswer:
    return RemovalAnswer(removal_id="", outcome=outcome, kept_by=(), failure=failure)


async def test_each_reference_has_its_own_end(wharf: Wharf) -> None:
    outcomes = {
        ONE: said(RemovalOutcome.REMOVED).model_copy(update={"kept_by": ("h.test/kept:v1",)}),
        TWO: said(RemovalOutcome.FAILED, IN_USE),
        "h.test/gone:v1": said(RemovalOutcome.ABSENT),
    }
    await wharf.storage.write(inventory.note, "a-1", ONE, "sha256:1", "sha256:2", 1)
    wharf.agent.answer = Remover(lambda reference, _: outcomes[reference])
    task_id = await wharf.start(UNLOAD, *(NewItem("a-1", reference) for reference in outcomes))
    status, items = await wharf.end(task_id)
    assert status is TaskStatus.PARTIALLY_SUCCEEDED
    found = {item.reference: item for item in items}
    assert {reference: item.status for reference, item in found.items()} == {
        ONE: ItemStatus.DONE,
        TWO: ItemStatus.FAILED,
        "h.test/gone:v1": ItemStatus.DONE,  # it was there when it was surveyed
    }
    assert found[ONE].kept_by == ("h.test/kept:v1",)
    assert found[TWO].failure == IN_USE.failure()
    assert await wharf.storage.read(agents.images, "a-1", ROOT) == []
    assert [path for path, _, _ in wharf.agent.calls] == [SURVEY_REMOVALS, REMOVE_IMAGES]


async def test_a_removal_that_runs_is_asked_for_again_by_its_id(wharf: Wharf) -> None:
    ended = said(RemovalOutcome.REMOVED)
    remover = Remover(lambda _, asked: ended if asked == 3 else said(RemovalOutcome.RUNNING))
    wharf.agent.answer = remover
    status, [item] = await wharf.end(await wharf.start(UNLOAD, NewItem("a-1", ONE)))
    assert (status, item.attempts) == (TaskStatus.SUCCEEDED, 1)
    assert len(set(remover.ids)) == 1


async def test_a_failure_that_may_pass_is_tried_again_as_a_new_removal(wharf: Wharf) -> None:
    remover = Remover(
        lambda _, __: (
            said(RemovalOutcome.FAILED, BUSY)
            if len(remover.ids) < 3
            else said(RemovalOutcome.REMOVED)
        )
    )
    wharf.agent.answer = remover
    status, [item] = await wharf.end(await wharf.start(UNLOAD, NewItem("a-1", ONE)))
    assert (status, item.attempts, item.failure) == (TaskStatus.SUCCEEDED, 3, None)
    assert len(set(remover.ids)) == 3


async def test_what_an_answer_leaves_out_fails_and_the_rest_goes_on(wharf: Wharf) -> None:
    wharf.agent.answer = Remover(
        lambda reference, _: said(RemovalOutcome.REMOVED) if reference == ONE else None
    )
    status, items = await wharf.end(
        await wharf.start(UNLOAD, NewItem("a-1", ONE), NewItem("a-1", TWO))
    )
    assert status is TaskStatus.PARTIALLY_SUCCEEDED
    assert [item.status for item in items] == [ItemStatus.DONE, ItemStatus.FAILED]
    assert items[1].failure is not None
    assert items[1].failure.failure_class is FailureClass.INTERNAL


async def test_agents_that_are_away_or_never_answer_fail_as_lost(wharf: Wharf) -> None:
    status, items = await wharf.end(
        await wharf.start(UNLOAD, NewItem("a-1", ONE), NewItem("away", ONE))
    )
    assert status is TaskStatus.FAILED
    assert [item.failure and item.failure.failure_class for item in items] == [
        FailureClass.AGENT_LOST
    ] * 2
    assert [path for path, _, _ in wharf.agent.calls] == [SURVEY_REMOVALS] * 4
    assert items[0].attempts == 4


async def test_a_cancel_stops_what_waits_and_awaits_what_runs(wharf: Wharf) -> None:
    asked, let_go = asyncio.Event(), asyncio.Event()
    remover = Remover(lambda _, __: said(RemovalOutcome.REMOVED))

    async def slowly(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        if request.path == REMOVE_IMAGES:
            asked.set()
            await let_go.wait()
        return await remover(request, body)

    wharf.agent.answer = slowly
    task_id = await wharf.start(UNLOAD, NewItem("a-1", ONE))
    await within(asked.wait())
    await wharf.tasks.cancel(task_id, by="ada")
    assert (await wharf.tasks.show(task_id)).status is TaskStatus.RUNNING
    let_go.set()
    status, [item] = await wharf.end(task_id)
    assert (status, item.status) == (TaskStatus.SUCCEEDED, ItemStatus.DONE)


async def test_it_goes_on_when_the_database_comes_back(wharf: Wharf) -> None:
    asked = asyncio.Event()
    remover = Remover(lambda _, __: said(RemovalOutcome.REMOVED))

    async def while_the_database_goes(
        request: web.Request, body: dict[str, Any]
    ) -> web.StreamResponse:
        if request.path == REMOVE_IMAGES:
            wharf.storage.down = not asked.is_set()
            asked.set()
        return await remover(request, body)

    wharf.agent.answer = while_the_database_goes
    task_id = await wharf.start(UNLOAD, NewItem("a-1", ONE))
    await within(asked.wait())
    wharf.storage.down = False
    status, _ = await wharf.end(task_id)
    assert status is TaskStatus.SUCCEEDED


def hold(conn: Connection, kernel_id: str, status: KernelStatus = KernelStatus.PULLING) -> None:
    """A kernel is bound to `ONE` on a-1."""
    add_session(conn, f"s-{kernel_id}")
    conn.execute(
        update(tables.kernels)
        .where(tables.kernels.c.session_id == f"s-{kernel_id}")
        .values(id=kernel_id, agent_id="a-1", status=status, reference=ONE, root_digest="sha256:1")
    )


@pytest.mark.parametrize("status", [*BOUND, *WITH_CONTAINER])
async def test_an_image_stays_under_a_kernel_that_is_bound_to_it(
    wharf: Wharf, status: KernelStatus
) -> None:
    def insert(conn: Connection) -> None:
        hold(conn, "k1", status)

    await wharf.storage.write(insert)
    wharf.agent.answer = Remover(lambda _, __: said(RemovalOutcome.REMOVED))
    status_of_task, [item] = await wharf.end(await wharf.start(UNLOAD, NewItem("a-1", ONE)))
    assert status_of_task is TaskStatus.FAILED
    assert item.failure is not None
    assert item.failure.failure_class is FailureClass.IN_USE
    assert f"kernel k1 of session s-k1 ({status})" in item.failure.message
    assert item.attempts == 1
    assert [path for path, _, _ in wharf.agent.calls] == [SURVEY_REMOVALS]


async def test_a_kernel_of_another_name_for_the_image_is_seen_by_its_digest(wharf: Wharf) -> None:
    await wharf.storage.write(hold, "k1")
    wharf.agent.answer = Remover(
        lambda _, __: said(RemovalOutcome.REMOVED),
        lambda reference: surveyed(reference, root_digests=("sha256:0", "sha256:1")),
    )
    _, items = await wharf.end(await wharf.start(UNLOAD, NewItem("a-1", TWO)))
    assert items[0].failure is not None
    assert items[0].failure.failure_class is FailureClass.IN_USE


async def test_a_kernel_that_is_bound_after_the_survey_is_seen(wharf: Wharf) -> None:
    remover = Remover(lambda _, __: said(RemovalOutcome.REMOVED))

    async def while_a_session_comes(
        request: web.Request, body: dict[str, Any]
    ) -> web.StreamResponse:
        surveyed_already = await remover(request, body)
        await wharf.storage.write(hold, "k1")
        return surveyed_already

    wharf.agent.answer = while_a_session_comes
    status, [item] = await wharf.end(await wharf.start(UNLOAD, NewItem("a-1", ONE)))
    assert status is TaskStatus.FAILED
    assert item.failure is not None
    assert item.failure.failure_class is FailureClass.IN_USE
    assert remover.image_ids == []


@pytest.mark.parametrize(("bound", "ended"), [(True, "failed"), (False, "skipped")])
async def test_an_image_that_a_session_is_about_to_bring_is_in_use(
    wharf: Wharf, *, bound: bool, ended: str
) -> None:
    if bound:
        await wharf.storage.write(hold, "k1")
    wharf.agent.answer = Remover(
        lambda _, __: said(RemovalOutcome.REMOVED),
        lambda reference: surveyed(reference, image_id=None, going=()),
    )
    _, [item] = await wharf.end(await wharf.start(UNLOAD, NewItem("a-1", ONE)))
    assert item.status.value == ended
    assert (item.failure is not None) == bound


async def test_a_container_of_others_keeps_its_image(wharf: Wharf) -> None:
    user = {"container_id": "c" * 64, "name": "web", "state": "exited"}
    wharf.agent.answer = Remover(
        lambda _, __: said(RemovalOutcome.REMOVED),
        lambda reference: surveyed(reference, users=(user,)),
    )
    _, [item] = await wharf.end(await wharf.start(UNLOAD, NewItem("a-1", ONE)))
    assert item.failure is not None
    assert item.failure.failure_class is FailureClass.IN_USE
    assert "container web (exited)" in item.failure.message


def protect(conn: Connection, reference: str) -> None:
    conn.execute(insert(tables.protected_images).values(reference=reference, by="ann", at=0.0))


PINNED = "h.test/other@sha256:" + "1" * 64


@pytest.mark.parametrize("protected", [ONE, "h.test/alias:v1", PINNED])
async def test_a_protected_image_stays_by_whatever_name_or_digest(
    wharf: Wharf, protected: str
) -> None:
    await wharf.storage.write(protect, protected)
    survey = {
        "going": (ONE, "h.test/alias:v1"),
        "root_digests": (PINNED.partition("@")[2],),
    }
    wharf.agent.answer = Remover(
        lambda _, __: said(RemovalOutcome.REMOVED), lambda reference: surveyed(reference, **survey)
    )
    _, [item] = await wharf.end(await wharf.start(UNLOAD, NewItem("a-1", ONE)))
    assert item.failure is not None
    assert item.failure.failure_class is FailureClass.PROTECTED
    assert f"{protected} was protected by ann" in item.failure.message


async def test_the_settings_protect_by_pattern(wharf: Wharf) -> None:
    wharf.agent.answer = Remover(lambda _, __: said(RemovalOutcome.REMOVED))
    _, [item] = await wharf.end(await wharf.start(UNLOAD, NewItem("a-1", "h.test/base/os:v1")))
    assert item.failure is not None
    assert item.failure.failure_class is FailureClass.PROTECTED
    assert "'h.test/base/*'" in item.failure.message


async def test_what_came_to_be_another_image_is_surveyed_anew(wharf: Wharf) -> None:
    surveys = iter(("id-1", "id-2"))
    remover = Remover(
        lambda _, __: said(
            RemovalOutcome.REMOVED if len(remover.ids) > 1 else RemovalOutcome.CHANGED
        ),
        lambda reference: surveyed(reference, image_id=next(surveys)),
    )
    wharf.agent.answer = remover
    status, [item] = await wharf.end(await wharf.start(UNLOAD, NewItem("a-1", ONE)))
    assert (status, item.attempts) == (TaskStatus.SUCCEEDED, 2)
    assert remover.image_ids == ["id-1", "id-2"]


async def test_an_image_that_another_task_prepares_is_waited_for(wharf: Wharf) -> None:
    def prepare(conn: Connection) -> str:
        insert_task(conn, "other")
        rows.add(conn, "other", [NewItem("a-1", TWO)], by="test")
        [item] = rows.of_task(conn, "other")
        image = ImageKeys(TWO, image_id=f"id of {ONE}")
        assert rows.run(
            conn, item.id, PreparationKind.PRELOAD, image, phase=Phase.WAITING, by="test"
        )
        return item.id

    other = await wharf.storage.write(prepare)
    wharf.agent.answer = Remover(lambda _, __: said(RemovalOutcome.REMOVED))
    task_id = await wharf.start(UNLOAD, NewItem("a-1", ONE))

    async def held_back() -> bool:
        return bool(wharf.agent.calls) and not await wharf.storage.read(
            preparations.of_task, task_id
        )

    await eventually(held_back)
    [item] = await wharf.storage.read(rows.of_task, task_id)
    assert item.status is ItemStatus.QUEUED
    assert [path for path, _, _ in wharf.agent.calls] == [SURVEY_REMOVALS]
    await wharf.storage.write(rows.cancel, other, by="test")
    status, _ = await wharf.end(task_id)
    assert status is TaskStatus.SUCCEEDED
    assert [path for path, _, _ in wharf.agent.calls] == [
        SURVEY_REMOVALS,
        SURVEY_REMOVALS,
        REMOVE_IMAGES,
    ]


async def test_the_image_stays_closed_until_the_removal_is_answered(wharf: Wharf) -> None:
    """An agent that does not answer may be removing it all the same."""
    closed: list[bool] = []

    async def at_the_third_call(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        if request.path == REMOVE_IMAGES:
            there = await wharf.storage.read(preparations.on_agents, ["a-1"])
            closed.append(there.against("a-1", ImageKeys(ONE)) is not None)
            if len(closed) < 3:
                return web.Response(status=500)
        return await remover(request, body)

    remover = Remover(lambda _, __: said(RemovalOutcome.REMOVED))
    wharf.agent.answer = at_the_third_call
    status, [item] = await wharf.end(await wharf.start(UNLOAD, NewItem("a-1", ONE)))
    assert (status, item.attempts) == (TaskStatus.SUCCEEDED, 1)
    assert closed == [True] * 3
    there = await wharf.storage.read(preparations.on_agents, None)
    assert there.against("a-1", ImageKeys(ONE)) is None


async def test_an_agent_that_never_answers_a_removal_fails_as_lost_and_opens_the_image(
    wharf: Wharf,
) -> None:
    remover = Remover(lambda _, __: said(RemovalOutcome.REMOVED))

    async def answers_surveys(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        if request.path == REMOVE_IMAGES:
            return web.Response(status=500)
        return await remover(request, body)

    wharf.agent.answer = answers_surveys
    status, [item] = await wharf.end(await wharf.start(UNLOAD, NewItem("a-1", ONE)))
    assert status is TaskStatus.FAILED
    assert item.failure is not None
    assert item.failure.failure_class is FailureClass.AGENT_LOST
    assert not await wharf.storage.read(preparations.of_task, item.id)


async def test_everybody_is_rung_when_an_item_ends(wharf: Wharf) -> None:
    wharf.agent.answer = Remover(lambda _, __: said(RemovalOutcome.REMOVED))
    async with wharf.bus.subscribe(CHANGED) as rings:
        await wharf.end(await wharf.start(UNLOAD, NewItem("a-1", ONE)))
        await within(anext(aiter(rings)))
