"""Preloads whose agents, secrets and database fail them."""

from collections.abc import Mapping
from itertools import count
from typing import Any
from unittest.mock import ANY

import pytest
from aiohttp import web
from cryptography.fernet import Fernet
from rig.tasks import eventually
from sqlalchemy import Connection, insert

from wharfinger.contracts.ingest import AttemptProgress
from wharfinger.contracts.rpc import (
    CHECK_AND_PULL,
    CheckAndPullReply,
    PullAnswer,
    PullOutcome,
)
from wharfinger.contracts.wire import ImageEvidence
from wharfinger.domain.failures import FailureClass
from wharfinger.domain.gate import ImageKeys
from wharfinger.domain.platforms import Platform
from wharfinger.domain.progress import Layer, Phase
from wharfinger.domain.references import Reference
from wharfinger.domain.states import ItemStatus, TaskStatus
from wharfinger.manager.bus.port import Message
from wharfinger.manager.catalogue.vault import Vault
from wharfinger.manager.fleet.service import CHANGED, PROGRESS
from wharfinger.manager.gate import preparations
from wharfinger.manager.images import board
from wharfinger.manager.images import items as rows
from wharfinger.manager.images.items import NewItem
from wharfinger.manager.images.listing import PRELOAD
from wharfinger.manager.pulls import attempts
from wharfinger.manager.storage import tables
from wharfinger.manager.storage.errors import StorageUnavailable
from wharfinger.registry.images import PlatformImage, ResolvedImage

from .conftest import Wharf

REFERENCE = Reference.parse("h.test/one:v1")
DIGEST = "sha256:" + "a" * 64
AMD64 = Platform("linux", "amd64")
IMAGE = ResolvedImage(
    REFERENCE, DIGEST, "", (PlatformImage(AMD64, DIGEST, DIGEST, (Layer(DIGEST, 100),)),)
)
EVIDENCE = ImageEvidence(
    image_id="sha256:1",
    tags=(str(REFERENCE),),
    digests=(f"h.test/one@{DIGEST}",),
    os="linux",
    architecture="amd64",
)
ITEM = NewItem("a-1", str(REFERENCE), DIGEST, 100)


async def start(wharf: Wharf, *, password: str | None = None) -> str:
    def know(conn: Connection) -> None:
        conn.execute(
            insert(tables.registries).values(
                host="h.test",
                url="http://h.test",
                username=password and "u",
                password_encrypted=password,
                created_at=0.0,
            )
        )

    await wharf.storage.write(know)
    return await wharf.start(PRELOAD, ITEM, arguments={"images": [IMAGE.to_json()]})


def reply(body: Mapping[str, Any], outcome: PullOutcome) -> web.StreamResponse:
    """The same of every order, but nothing is there when merely looked for."""
    answers = tuple(
        PullAnswer(
            attempt_id=order["attemptId"],
            outcome=PullOutcome.ABSENT if order["policy"] == "check" else outcome,
        )
        for order in body["orders"]
    )
    return web.json_response(CheckAndPullReply(answers=answers).to_wire())


async def pulling(_: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    return reply(body, PullOutcome.PULLING)


async def the_attempt(wharf: Wharf, task_id: str) -> attempts.Attempt:
    """Once the agent has accepted it."""
    found: list[attempts.Attempt] = []

    async def accepted() -> bool:
        [item] = await wharf.storage.read(rows.of_task, task_id)
        newest = await wharf.storage.read(attempts.of_items, [item.id])
        found[:] = newest.values()
        return bool(found) and found[0].accepted

    await eventually(accepted)
    return found[0]


async def test_an_agent_that_never_answers_fails_as_lost(wharf: Wharf) -> None:
    status, [item] = await wharf.end(await start(wharf))
    assert (status, item.attempts) == (TaskStatus.FAILED, 4)
    assert item.failure is not None
    assert item.failure.failure_class is FailureClass.AGENT_LOST


async def test_a_cancel_ends_though_the_agent_answers_no_call_any_more(wharf: Wharf) -> None:
    async def answers_only_checks(_: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        if body.get("orders", [{}])[0].get("policy") == "check":
            return reply(body, PullOutcome.ABSENT)
        return web.Response(status=500)

    wharf.agent.answer = answers_only_checks
    task_id = await start(wharf)

    async def sent() -> bool:
        return bool(await wharf.storage.read(attempts.in_flight))

    await eventually(sent)
    await wharf.tasks.cancel(task_id, by="ada")
    status, [item] = await wharf.end(task_id)
    assert (status, item.status) == (TaskStatus.CANCELLED, ItemStatus.CANCELLED)


async def test_a_password_that_cannot_be_read_fails_at_once_and_says_why(wharf: Wharf) -> None:
    wharf.agent.answer = pulling
    stranger = Vault(Fernet.generate_key()).encrypt("p")
    status, [item] = await wharf.end(await start(wharf, password=stranger))
    assert status is TaskStatus.FAILED
    assert item.failure is not None
    assert item.failure.failure_class is FailureClass.AUTH
    assert "another key" in item.failure.message
    assert [path for path, _, _ in wharf.agent.calls] == [CHECK_AND_PULL]  # only looked


async def test_a_bad_moment_of_the_database_ends_nothing(
    wharf: Wharf, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep, refused = board._keep, 0

    def refuse_twice(conn: Connection, *args: Any) -> None:
        nonlocal refused
        refused += 1
        if refused < 3:
            raise StorageUnavailable
        keep(conn, *args)

    monkeypatch.setattr(board, "_KEEP_EVERY", 0.0)
    monkeypatch.setattr(board, "_keep", refuse_twice)
    wharf.agent.answer = pulling
    task_id = await start(wharf)
    attempt = await the_attempt(wharf, task_id)
    done = count(40)

    async def kept() -> bool:
        said = AttemptProgress(
            attempt_id=attempt.id, phase=Phase.DOWNLOADING, bytes_done=next(done), bytes_total=100
        )
        await wharf.bus.publish(PROGRESS, Message("", "progress", {"progress": [said.to_wire()]}))
        [item] = await wharf.storage.read(rows.of_task, task_id)
        return item.bytes_done >= 40

    await eventually(kept)
    assert refused >= 3
    await wharf.storage.write(attempts.finish, attempt.id, EVIDENCE, by="test")
    await wharf.bus.publish(CHANGED, Message("", "changed", {}))
    status, [item] = await wharf.end(task_id)
    assert (status, item.status, item.bytes_done) == (TaskStatus.SUCCEEDED, ItemStatus.DONE, 100)


async def test_the_second_task_of_an_image_waits_and_finds_it_there(wharf: Wharf) -> None:
    there = False

    async def one_pull(_: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        if there:
            answers = tuple(
                PullAnswer(
                    attempt_id=order["attemptId"], outcome=PullOutcome.PRESENT, evidence=EVIDENCE
                )
                for order in body["orders"]
            )
            return web.json_response(CheckAndPullReply(answers=answers).to_wire())
        return reply(body, PullOutcome.PULLING)

    wharf.agent.answer = one_pull
    first = await start(wharf)
    attempt = await the_attempt(wharf, first)
    second = await wharf.start(PRELOAD, ITEM, arguments={"images": [IMAGE.to_json()]})

    async def held_back() -> bool:
        held = await wharf.storage.read(preparations.on_agents, ["a-1"])
        found = held.against("a-1", ImageKeys(str(REFERENCE)))
        status = (await wharf.tasks.show(second)).status
        return found is not None and found.task_id == first and status is TaskStatus.RUNNING

    await eventually(held_back)
    orders = [order for _, body, _ in wharf.agent.calls for order in body["orders"]]
    assert [order["policy"] for order in orders].count("check") == 1
    there = True
    await wharf.storage.write(attempts.finish, attempt.id, EVIDENCE, by="test")
    await wharf.bus.publish(CHANGED, Message("", "changed", {}))
    assert await wharf.end(first) == (TaskStatus.SUCCEEDED, ANY)
    status, [item] = await wharf.end(second)
    assert (status, item.status, item.attempts) == (TaskStatus.SUCCEEDED, ItemStatus.SKIPPED, 0)
    assert not await wharf.storage.read(preparations.of_task, first)


async def test_what_is_known_of_its_progress_stands_in_the_row(
    wharf: Wharf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(board, "_KEEP_EVERY", 0.0)
    wharf.agent.answer = pulling
    attempt = await the_attempt(wharf, await start(wharf))

    async def told() -> bool:
        said = AttemptProgress(
            attempt_id=attempt.id,
            phase=Phase.DOWNLOADING,
            bytes_done=40,
            bytes_total=100,
            eta_seconds=2.5,
        )
        await wharf.bus.publish(PROGRESS, Message("", "progress", {"progress": [said.to_wire()]}))
        held = await wharf.storage.read(preparations.on_agents, ["a-1"])
        found = held.against("a-1", ImageKeys(str(REFERENCE), frozenset({DIGEST})))
        assert found is not None
        assert found.attempt_id == attempt.id
        return (found.bytes_done, found.bytes_total, found.eta_seconds) == (40, 100, 2.5)

    await eventually(told)
