"""check-and-pull as the loop calls it: agents that answer well, badly, late or not at all."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from cryptography.fernet import Fernet
from rig.odd_agent import Answer, OddAgent
from rig.people import ROOT
from rig.queues import DIGEST, hold_image, insert_host, insert_image, insert_session
from rig.tasks import eventually
from sqlalchemy import Connection

from wharfinger.contracts.rpc import CANCEL, CHECK_AND_PULL
from wharfinger.domain.sessions import Reason
from wharfinger.domain.states import AttemptStatus, KernelStatus
from wharfinger.manager.bus.memory import MemoryBus
from wharfinger.manager.catalogue.registries import Registries
from wharfinger.manager.catalogue.vault import Vault
from wharfinger.manager.fleet import agents, pause
from wharfinger.manager.fleet.calls import AgentCalls
from wharfinger.manager.fleet.views import AgentContact
from wharfinger.manager.pulls import attempts
from wharfinger.manager.pulls.limits import Limits
from wharfinger.manager.sessions import endings, kernels
from wharfinger.manager.sessions.check_precond import CheckPrecond
from wharfinger.manager.sessions.kernels import Kernel
from wharfinger.manager.storage import tables
from wharfinger.manager.storage.port import Storage
from wharfinger.registry.client import RegistryClient

EVIDENCE = {
    "imageId": "sha256:1",
    "tags": ["h.test/image:v1"],
    "digests": [f"h.test/image@{DIGEST}"],
    "os": "linux",
    "architecture": "amd64",
}
OTHER = "sha256:" + "b" * 64
BOUND = {"status": KernelStatus.SCHEDULED, "agent_id": "a-1"}


class Bringing:
    """The loop with one agent, `a-1`, and room for one pull."""

    def __init__(self, storage: Storage, agent: OddAgent, loop: CheckPrecond) -> None:
        self.storage = storage
        self.agent = agent
        self.precond = loop

    async def bind(self, session_id: str, *differing: dict[str, Any]) -> None:
        bound = [BOUND | each for each in differing or ({},)]
        await self.storage.write(insert_session, session_id, *bound)
        self.precond.loop.ring()

    async def kernel(self, kernel_id: str) -> Kernel:
        return (await self.storage.read(kernels.where, tables.kernels.c.id == kernel_id))[0]

    async def until(self, kernel_id: str, status: KernelStatus) -> Kernel:
        async def there() -> bool:
            return (await self.kernel(kernel_id)).status is status

        await eventually(there)
        return await self.kernel(kernel_id)

    def orders(self) -> list[dict[str, Any]]:
        """All orders the agent was given, in their order."""
        calls = [body for path, body, _ in self.agent.calls if path == CHECK_AND_PULL]
        return [order for body in calls for order in body["orders"]]


def answering(**answer: Any) -> Answer:
    """Answers every order, and every cancel, so."""

    async def answered(_: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        ids = [order["attemptId"] for order in body.get("orders", ())]
        ids += body.get("attemptIds", ())
        said = {"outcome": "aborted"} if "attemptIds" in body else answer
        return web.json_response({"answers": [{"attemptId": each, **said} for each in ids]})

    return answered


async def _broken(_: web.Request, __: dict[str, Any]) -> web.StreamResponse:
    return web.Response(status=500)


@pytest.fixture
async def bringing(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bringing]:
    monkeypatch.setattr(pause, "_LONGEST", 0.01)
    bus, vault = MemoryBus(), Vault(Fernet.generate_key())

    async def contact(agent_id: str) -> AgentContact | None:
        return await storage.read(agents.contact, agent_id)

    calls = AgentCalls(contact, vault)
    async with OddAgent(_broken) as agent, RegistryClient() as client:

        def begin(conn: Connection) -> None:
            token = vault.encrypt("call-me")
            insert_host(conn, "a-1", address=agent.url, call_token_encrypted=token)
            insert_host(conn, "a-2")
            for digest in (DIGEST, OTHER):
                insert_image(conn, digest)
            conn.execute(
                tables.registries.insert().values(
                    host="h.test",
                    url="http://h.test",
                    username="u",
                    password_encrypted=vault.encrypt("secret"),
                    created_at=0.0,
                )
            )

        await storage.write(begin)
        registries = Registries(storage, vault, client)
        precond = CheckPrecond(
            storage,
            bus,
            calls,
            registries,
            client,
            Limits(total=1),
            by="test",
            period=0.05,
        )
        await precond.start()
        yield Bringing(storage, agent, precond)
        await precond.stop()
    await calls.close()


async def test_an_image_that_is_there_takes_the_kernels_to_prepared_in_one_call(
    bringing: Bringing,
) -> None:
    bringing.agent.answer = answering(outcome="present", evidence=EVIDENCE)
    await bringing.bind("s", {}, {})
    for kernel_id in ("s-0", "s-1"):
        assert (await bringing.until(kernel_id, KernelStatus.PREPARED)).image_id == "sha256:1"
    assert [path for path, _, _ in bringing.agent.calls] == [CHECK_AND_PULL]
    first = bringing.orders()[0]
    assert (first["policy"], first["rootDigest"]) == ("session", DIGEST)
    assert first["credentials"] == {"username": "u", "password": "secret"}
    [held] = await bringing.storage.read(agents.images, "a-1", ROOT)
    assert (held.reference, held.root_digest) == ("h.test/image:v1", DIGEST)


async def test_kernels_of_one_image_share_a_place_and_others_wait_for_room(
    bringing: Bringing,
) -> None:
    bringing.agent.answer = answering(outcome="pulling", taskId="t")
    await bringing.bind("s", {}, {})
    for kernel_id in ("s-0", "s-1"):
        await bringing.until(kernel_id, KernelStatus.PREPARING)
    await bringing.bind("later", {"root_digest": OTHER})

    async def told() -> bool:
        return (await bringing.kernel("later-0")).status_info is Reason.PULLS_LIMITED

    await eventually(told)


async def test_without_room_an_image_in_the_mapping_is_looked_for(bringing: Bringing) -> None:
    bringing.agent.answer = answering(outcome="pulling", taskId="t")
    await bringing.bind("s", {"root_digest": OTHER})
    await bringing.until("s-0", KernelStatus.PREPARING)

    async def accepted() -> bool:
        [attempt] = await bringing.storage.read(attempts.open_of_kernels)
        return attempt.accepted

    await eventually(accepted)
    await bringing.storage.write(hold_image, "a-1")
    bringing.agent.answer = answering(outcome="absent")
    await bringing.bind("warm")
    waiting = await bringing.until("warm-0", KernelStatus.PENDING)
    assert waiting.status_info is Reason.RETRYING
    assert bringing.orders()[-1]["policy"] == "look"


async def test_an_agent_that_answers_no_call_is_left_for_another(bringing: Bringing) -> None:
    await bringing.bind("s")
    waiting = await bringing.until("s-0", KernelStatus.PENDING)
    assert (waiting.agents_failed, waiting.due, waiting.agent_id) == (1, True, None)
    assert len(bringing.orders()) == attempts.MOST_SENDS
    assert not await bringing.storage.read(attempts.open_of_kernels)


async def test_a_pull_nobody_waits_for_any_more_is_cancelled(bringing: Bringing) -> None:
    bringing.agent.answer = answering(outcome="pulling", taskId="t")
    await bringing.bind("s")
    await bringing.until("s-0", KernelStatus.PREPARING)

    def cancel(conn: Connection) -> None:
        info = Reason.ENDED_BY_USER
        endings.end(conn, "s", KernelStatus.CANCELLED, reason="asked", by="test", info=info)

    await bringing.storage.write(cancel)

    async def nothing_open() -> bool:
        return not await bringing.storage.read(attempts.open_of_kernels)

    await eventually(nothing_open)
    assert any(path == CANCEL for path, _, _ in bringing.agent.calls)
    assert (await bringing.kernel("s-0")).status is KernelStatus.CANCELLED
    [ended] = (
        await bringing.storage.read(attempts.of_ids, [bringing.orders()[0]["attemptId"]])
    ).values()
    assert ended.status is AttemptStatus.ABORTED


async def test_a_platform_the_image_is_not_for_is_found_before_any_call(
    bringing: Bringing,
) -> None:
    await bringing.storage.write(insert_image, DIGEST, platforms=["linux/s390x"])
    await bringing.bind("s")
    ended = await bringing.until("s-0", KernelStatus.ERROR)
    assert ended.failure is not None
    assert ended.failure.failure_class == "wrong-platform"
    assert not bringing.agent.calls


async def test_a_call_under_way_holds_up_no_round_and_no_stop(bringing: Bringing) -> None:
    called = asyncio.Event()

    async def silent(_: web.Request, __: dict[str, Any]) -> web.StreamResponse:
        called.set()
        await asyncio.Event().wait()
        raise AssertionError

    bringing.agent.answer = silent
    await bringing.bind("s")
    async with asyncio.timeout(5):
        await called.wait()
        await bringing.precond.run_once()
        await bringing.precond.stop()
