"""Calls to agents that answer well, badly, late or not at all."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from cryptography.fernet import Fernet
from rig.odd_agent import Answer, OddAgent

from wharfinger.contracts.rpc import PullOutcome, RemovalOrder
from wharfinger.contracts.wire import DiskSpace
from wharfinger.manager.catalogue.vault import Vault
from wharfinger.manager.fleet import calls as module
from wharfinger.manager.fleet.calls import AgentCalls, AgentUnreachable
from wharfinger.manager.fleet.views import AgentContact

ABORTED = {"answers": [{"attemptId": "t1", "outcome": "aborted"}]}


@pytest.fixture
def vault() -> Vault:
    return Vault(Fernet.generate_key())


@pytest.fixture
async def agent() -> AsyncIterator[OddAgent]:
    async def well(_: web.Request, __: dict[str, Any]) -> web.StreamResponse:
        return web.json_response(ABORTED)

    async with OddAgent(well) as agent:
        yield agent


@pytest.fixture
async def calls(agent: OddAgent, vault: Vault) -> AsyncIterator[AgentCalls]:
    async def contact(agent_id: str) -> AgentContact | None:
        address = {"a-1": agent.url, "nonsense": "http://[", "silent": "http://127.0.0.1:1"}
        if agent_id not in address:
            return None
        return AgentContact(agent_id, address[agent_id], "i1", vault.encrypt("call-me"))

    calls = AgentCalls(contact, vault)
    yield calls
    await calls.close()


async def test_a_call_names_the_incarnation_and_shows_its_token(
    agent: OddAgent, calls: AgentCalls
) -> None:
    answers = await calls.cancel("a-1", ["t1"])
    assert [answer.outcome for answer in answers] == [PullOutcome.ABORTED]
    [(path, body, authorization)] = agent.calls
    assert path == "/rpc/cancel"
    assert body["incarnation"] == "i1"
    assert body["attemptIds"] == ["t1"]
    assert authorization == "Bearer call-me"


async def test_a_survey_of_removals_asks_for_bytes_only_where_they_are_wanted(
    agent: OddAgent, calls: AgentCalls
) -> None:
    survey = {"removalId": "r1", "imageId": "sha256:1", "bytesFreed": 5}
    agent.answer = answers(web.json_response({"surveys": [survey]}))
    [surveyed] = await calls.survey_removals(
        "a-1", [RemovalOrder(removal_id="r1", reference="a/b:v1")], want_bytes=True
    )
    assert (surveyed.image_id, surveyed.bytes_freed) == ("sha256:1", 5)
    [(path, body, _)] = agent.calls
    assert (path, body["wantBytes"]) == ("/rpc/survey-removals", True)


async def test_a_survey_of_pulls_tells_the_disk_too(agent: OddAgent, calls: AgentCalls) -> None:
    reply = {
        "surveys": [{"attemptId": "t1", "bytesMissing": 7, "bytesNeeded": 14}],
        "disk": {"free": 1, "total": 2},
    }
    agent.answer = answers(web.json_response(reply))
    surveyed = await calls.survey_pulls("a-1", [])
    assert [each.bytes_missing for each in surveyed.surveys] == [7]
    assert surveyed.disk == DiskSpace(free=1, total=2)
    assert agent.calls[0][0] == "/rpc/survey-pulls"


async def test_an_agent_too_old_for_surveys_is_unreachable(
    agent: OddAgent, calls: AgentCalls
) -> None:
    agent.answer = answers(web.Response(status=404, text="Not Found"))
    with pytest.raises(AgentUnreachable, match="answered 404"):
        await calls.survey_pulls("a-1", [])


def answers(response: web.Response) -> Answer:
    async def answer(_: web.Request, __: dict[str, Any]) -> web.StreamResponse:
        return response

    return answer


async def cut(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Length": "100"})
    await response.prepare(request)
    await response.write(b"{")
    assert request.transport is not None
    request.transport.abort()
    return response


async def endless(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    for _ in range(9):
        await response.write(b" " * 1024 * 1024)
    return response


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (web.Response(status=500, text="no luck"), "answered 500: no luck$"),
        (
            web.json_response({"error": {"class": "conflict", "message": "busy"}}, status=409),
            "answered 409: busy$",
        ),
        (web.Response(status=302, headers={"Location": "/elsewhere"}), "answered 302"),
        (web.Response(text="<html>"), "is no CancelReply"),
        (web.json_response({"answers": [{"attemptId": "t1", "outcome": "?"}]}), "no CancelReply"),
        (cut, "does not answer"),
        (endless, "longer than"),
    ],
    ids=["error", "other-incarnation", "redirect", "garbage", "other-shape", "cut", "huge"],
)
async def test_what_is_no_answer_makes_the_agent_unreachable(
    agent: OddAgent, calls: AgentCalls, answer: Any, told: str
) -> None:
    async def badly(request: web.Request, _: dict[str, Any]) -> web.StreamResponse:
        if isinstance(answer, web.StreamResponse):
            return answer
        return await answer(request)  # type: ignore[no-any-return]  # a parameter's

    agent.answer = badly
    with pytest.raises(AgentUnreachable, match=told):
        await calls.cancel("a-1", ["t1"])
    assert len(agent.calls) == 1


async def test_a_call_waits_a_little_beyond_its_deadline_and_no_longer(
    agent: OddAgent, calls: AgentCalls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_GRACE", 0.1)
    gone = asyncio.Event()

    async def never(_: web.Request, __: dict[str, Any]) -> web.StreamResponse:
        try:
            await asyncio.Event().wait()
        finally:
            gone.set()
        raise AssertionError

    agent.answer = never
    with pytest.raises(AgentUnreachable, match="does not answer"):
        async with asyncio.timeout(5):
            await calls.cancel("a-1", ["t1"], deadline=0.1)


@pytest.mark.parametrize("agent_id", ["silent", "nonsense", "nobody"])
async def test_who_cannot_be_called_is_unreachable(calls: AgentCalls, agent_id: str) -> None:
    with pytest.raises(AgentUnreachable, match=agent_id):
        await calls.cancel(agent_id, ["t1"])


async def test_a_token_that_cannot_be_read_makes_the_agent_unreachable(agent: OddAgent) -> None:
    stranger = Vault(Fernet.generate_key()).encrypt("call-me")

    async def contact(agent_id: str) -> AgentContact | None:
        return AgentContact(agent_id, agent.url, "i1", stranger)

    calls = AgentCalls(contact, Vault(Fernet.generate_key()))
    with pytest.raises(AgentUnreachable, match="registers anew"):
        await calls.cancel("a-1", ["t1"])
    await calls.close()
    assert agent.calls == []
