"""Unloads by agents that answer well, badly and not at all."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from aiohttp import web
from rig.tasks import within

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
from wharfinger.domain.states import ItemStatus, TaskStatus
from wharfinger.manager.fleet import agents, inventory
from wharfinger.manager.images.items import NewItem
from wharfinger.manager.images.listing import UNLOAD

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
        "h.test/gone:v1": ItemStatus.SKIPPED,
    }
    assert found[ONE].kept_by == ("h.test/kept:v1",)
    assert found[TWO].failure == IN_USE.failure()
    assert await wharf.storage.read(agents.images, "a-1") == []
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
