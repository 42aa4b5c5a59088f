"""The agent's RPC over real HTTP: who may call, and what is no call."""

import asyncio
from typing import Any

import aiohttp
import pytest
from rig.orders import SampleImage
from rig.recording_manager import RecordingManager
from rig.registry import Registry

from wharfinger.agent import rpc
from wharfinger.contracts.rpc import (
    CANCEL,
    CHECK_AND_PULL,
    REMOVE_IMAGES,
    SURVEY_PULLS,
    SURVEY_REMOVALS,
)

pytestmark = pytest.mark.usefixtures("agent")


@pytest.mark.parametrize(
    "path", [CHECK_AND_PULL, REMOVE_IMAGES, SURVEY_REMOVALS, SURVEY_PULLS, CANCEL]
)
async def test_only_the_call_token_may_call(manager: RecordingManager, path: str) -> None:
    status, body = await manager.call(path, {"orders": [], "attemptIds": []}, token="wrong")
    assert status == 401
    assert body["error"]["class"] == "forbidden"


async def test_a_call_for_another_incarnation_is_refused(manager: RecordingManager) -> None:
    status, body = await manager.call(CANCEL, {"attemptIds": ["t1"]}, incarnation="older")
    assert status == 409
    assert body["error"]["class"] == "conflict"


@pytest.mark.parametrize(
    "body", [None, [], "text", {}, {"orders": "none"}, {"orders": [{"attemptId": "t1"}]}]
)
async def test_a_malformed_call_is_refused_with_what_is_wrong(
    manager: RecordingManager, body: Any
) -> None:
    status, answer = await manager.call(CHECK_AND_PULL, body)
    assert status == 400
    assert answer["error"]["class"] == "invalid-request"
    assert answer["error"]["detail"]["problems"]


async def test_a_refusal_never_repeats_a_password(
    manager: RecordingManager, registry: Registry
) -> None:
    order = SampleImage(registry).order("t1") | {
        "credentials": {"username": 5, "password": "hunter2"},
        "policy": "hunter2",
    }
    status, answer = await manager.call(CHECK_AND_PULL, {"orders": [order]})
    assert status == 400
    assert "hunter2" not in str(answer)


async def test_a_body_beyond_the_bound_is_refused(manager: RecordingManager) -> None:
    status, answer = await manager.call(CANCEL, {"attemptIds": ["x" * 9 * 1024 * 1024]})
    assert status == 413
    assert answer["error"]["detail"]["limit"] == 8 * 1024 * 1024


async def test_a_body_that_does_not_arrive_is_given_up(
    manager: RecordingManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rpc, "READ_SECONDS", 0.1)
    agent = manager.registration
    host, _, port = agent.address.removeprefix("http://").rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(
        f"POST {CANCEL} HTTP/1.1\r\nHost: agent\r\nContent-Length: 100\r\n"
        f"Authorization: Bearer {agent.call_token}\r\n\r\n{{".encode()
    )
    async with asyncio.timeout(10):
        assert (await reader.readline()).split()[1] == b"408"
    writer.close()
    await writer.wait_closed()


async def test_health_needs_no_token(manager: RecordingManager) -> None:
    async with (
        aiohttp.ClientSession() as session,
        session.get(manager.registration.address + "/healthz") as response,
    ):
        assert response.status == 200
