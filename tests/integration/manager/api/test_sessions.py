"""Sessions over HTTP: asked for, shown, ended, watched, and their logs."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import httpx2
import pytest
from rig.api import Api, ToldSessions
from rig.session_rows import LIFE, add_session, advance, read_session
from rig.session_views import kernel_row, session_view, steps
from rig.sse import Stream

from wharfinger.domain import errors
from wharfinger.domain.failures import Failure, FailureClass, FailureError
from wharfinger.domain.sessions import Reason
from wharfinger.domain.slots import Slots
from wharfinger.domain.states import KernelStatus
from wharfinger.manager.bus.memory import MemoryBus
from wharfinger.manager.fleet.calls import AgentUnreachable
from wharfinger.manager.sessions import channels
from wharfinger.manager.sessions.bells import SessionBells
from wharfinger.manager.sessions.live import LivePulls
from wharfinger.manager.sessions.logs import KernelLogs
from wharfinger.manager.sessions.requests import KernelRequest, SessionRequest
from wharfinger.manager.sessions.views import KernelView, PullFigures, SessionView
from wharfinger.manager.sessions.watch import SessionWatch

FAILED = "... on Failure { class message detail }"
CREATE = (
    "mutation($kernels: [KernelSpec!]!, $name: String, $group: String) { answer: createSession("
    "kernels: $kernels, name: $name, scalingGroup: $group)"
    " { __typename ... on Session { id owner status } " + FAILED + " } }"
)
END = "mutation($id: ID!) { answer: %s { __typename ... on Session { id } " + FAILED + " } }"


async def owned(api: Api, session_id: str = "s1", owner: str = "ann") -> SessionView:
    view = session_view(session_id, await api.user_id(owner), owner)
    api.sessions.views[session_id] = view
    return view


async def test_a_session_is_created_for_who_asks(api: Api) -> None:
    spec = {
        "reference": "h:5000/app:v1",
        "cpu": 0.125,
        "mem": 3 * 2**30,
        "gpu": 2,
        "command": ["/bin/app", "-v"],
        "environment": [{"name": "A", "value": "1"}, {"name": "B", "value": ""}],
    }
    answer = await api.data(
        CREATE, user="ann", kernels=[spec, {"reference": "x"}], name="mine", group="gpu"
    )
    assert answer["answer"]["__typename"] == "Session"
    assert answer["answer"]["owner"] == "ann"
    ((request, owner_id),) = api.sessions.created
    assert owner_id == await api.user_id("ann")
    assert request == SessionRequest(
        [
            KernelRequest(
                "h:5000/app:v1",
                Slots(125, 3 * 2**30, 2),
                ("/bin/app", "-v"),
                {"A": "1", "B": ""},
            ),
            KernelRequest("x", Slots(1000, 2**30, 0)),
        ],
        name="mine",
        scaling_group="gpu",
    )


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"cpu": 0.0001}, "kernels[1].cpu"),
        ({"cpu": 0}, "kernels[1].cpu"),
        ({"cpu": -1.5}, "kernels[1].cpu"),
        ({"cpu": 1e300}, "kernels[1].cpu"),
        ({"mem": 0}, "kernels[1].mem"),
        ({"mem": 2**60}, "kernels[1].mem"),
        ({"gpu": -1}, "kernels[1].gpu"),
        ({"environment": [{"name": "", "value": "x"}]}, "kernels[1].environment"),
        ({"environment": [{"name": "A=B", "value": "x"}]}, "kernels[1].environment"),
        (
            {"environment": [{"name": "A", "value": "x"}, {"name": "A", "value": "y"}]},
            "kernels[1].environment",
        ),
    ],
)
async def test_what_is_wrong_with_a_kernel_is_named(
    api: Api, wrong: dict[str, Any], field: str
) -> None:
    kernels = [{"reference": "x"}, {"reference": "y", **wrong}]
    answer = (await api.data(CREATE, kernels=kernels))["answer"]
    assert answer["__typename"] == "InvalidRequest"
    assert field in answer["message"]
    assert answer["detail"] == {"field": field}
    assert api.sessions.created == []


@pytest.mark.parametrize("mem", [1.5, "12", True, [1]])
async def test_bytes_are_a_whole_number(api: Api, mem: Any) -> None:
    answer = await api.graphql(CREATE, kernels=[{"reference": "x", "mem": mem}])
    (error,) = answer["errors"]
    assert error["extensions"]["class"] == "invalid-request"
    assert "whole number" in error["message"]


async def test_a_nul_within_a_kernel_is_refused(api: Api) -> None:
    for spec in ({"reference": "x\0"}, {"reference": "x", "command": ["a\0"]}):
        answer = (await api.data(CREATE, kernels=[spec]))["answer"]
        assert answer["__typename"] == "InvalidRequest"
        assert "NUL" in answer["message"]


@pytest.mark.parametrize(
    ("refusal", "name"),
    [
        (errors.UnknownSelector("no group"), "UnknownSelector"),
        (errors.UnknownRegistry("no h"), "UnknownRegistry"),
        (errors.InvalidReference("bad"), "InvalidReference"),
        (errors.Conflict("x"), "Conflict"),
        (errors.Forbidden("x"), "Forbidden"),
        (errors.InvalidRequest("x"), "InvalidRequest"),
        (FailureError(Failure(FailureClass.NOT_FOUND, "no tag")), "ImageNotFound"),
        (FailureError(Failure(FailureClass.NO_SPACE, "full")), "Refused"),
    ],
)
async def test_a_refused_session_is_a_named_failure(
    api: Api, refusal: errors.WharfingerError, name: str
) -> None:
    api.sessions.refusal = refusal
    answer = (await api.data(CREATE, kernels=[{"reference": "x"}]))["answer"]
    assert (answer["__typename"], answer["message"]) == (name, refusal.message)


SHOWN = (
    "id name owner scalingGroup status statusInfo statusData createdAt endedAt kernels { id agentId"
    " reference rootDigest status statusInfo statusData attempts exitCode failure { class message }"
    " slots { cpu mem gpu } pull { phase bytesDone bytesTotal bytesPerSecond etaSeconds } command"
    " startedAt endedAt transitions { from to by } }"
)


async def pulling(api: Api) -> SessionView:
    ann = await api.user_id("ann")
    row = kernel_row(
        "k1",
        owner_id=ann,
        status=KernelStatus.PULLING,
        status_info=Reason.RETRYING,
        status_data={"tries": 2},
        agent_id="one",
        attempts=2,
        failure=Failure(FailureClass.NETWORK, "cut"),
        slots=Slots(1500, 5 * 10**9, 1),
    )
    kernel = KernelView(
        row,
        [step._replace(by=ann) for step in steps((1, "PENDING"), (2, "PULLING"))],
        PullFigures("downloading", 3 * 10**9, 4 * 10**9, 1e8, 10.0),
    )
    view = session_view("s1", ann, "ann", [kernel], scaling_group="gpu")
    api.sessions.views["s1"] = view
    return view


async def test_a_session_is_shown_as_it_is(api: Api) -> None:
    await pulling(api)
    document = f'{{ session(id: "s1") {{ ... on Session {{ {SHOWN} }} }} }}'
    shown = (await api.data(document, user="ann"))["session"]
    assert shown == {
        "id": "s1",
        "name": "name of s1",
        "owner": "ann",
        "scalingGroup": "gpu",
        "status": "PULLING",
        "statusInfo": "retrying",
        "statusData": {"tries": 2},
        "createdAt": "1970-01-01T00:00:01+00:00",
        "endedAt": None,
        "kernels": [
            {
                "id": "k1",
                "agentId": "one",
                "reference": "h:5000/app:v1",
                "rootDigest": None,
                "status": "PULLING",
                "statusInfo": "retrying",
                "statusData": {"tries": 2},
                "attempts": 2,
                "exitCode": None,
                "failure": {"class": "network", "message": "cut"},
                "slots": {"cpu": 1.5, "mem": 5 * 10**9, "gpu": 1},
                "pull": {
                    "phase": "downloading",
                    "bytesDone": 3 * 10**9,
                    "bytesTotal": 4 * 10**9,
                    "bytesPerSecond": 1e8,
                    "etaSeconds": 10.0,
                },
                "command": ["/bin/app"],
                "startedAt": None,
                "endedAt": None,
                "transitions": [
                    {"from": None, "to": "PENDING", "by": "user ann"},
                    {"from": "PENDING", "to": "PULLING", "by": "user ann"},
                ],
            }
        ],
    }


async def test_a_list_has_its_transitions_without_a_look_at_each_session(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    await pulling(api)
    monkeypatch.setattr(api.sessions, "show", None)
    listed = "{ sessions { nodes { id kernels { id transitions { to } } } } }"
    (session,) = (await api.data(listed, user="ann"))["sessions"]["nodes"]
    assert [step["to"] for step in session["kernels"][0]["transitions"]] == ["PENDING", "PULLING"]


async def test_users_see_their_own_sessions_and_a_superadmin_all(api: Api) -> None:
    for session_id, owner in (("s1", "ann"), ("s2", "bob"), ("s3", "ann")):
        await owned(api, session_id, owner)
    listed = "{ sessions { nodes { id } } }"
    own = (await api.data(listed, user="ann"))["sessions"]["nodes"]
    assert [each["id"] for each in own] == ["s3", "s1"]
    assert len((await api.data(listed))["sessions"]["nodes"]) == 3
    one = f"query($id: ID!) {{ session(id: $id) {{ __typename {FAILED} }} }}"
    assert (await api.data(one, user="ann", id="s2"))["session"]["class"] == "forbidden"
    assert (await api.data(one, id="s2"))["session"]["__typename"] == "Session"
    assert (await api.data(one, id="nothing"))["session"]["__typename"] == "UnknownId"


async def test_pages_and_statuses_of_sessions(api: Api) -> None:
    for number in range(3):
        await owned(api, f"s{number}")
    listed = (
        "query($a: String, $s: [String!]) { sessions(first: 2, after: $a, status: $s)"
        " { nodes { id } pageInfo { hasNextPage endCursor } } }"
    )
    page = (await api.data(listed, s=["PENDING"]))["sessions"]
    assert page["pageInfo"]["hasNextPage"]
    rest = (await api.data(listed, a=page["pageInfo"]["endCursor"]))["sessions"]
    assert [each["id"] for each in page["nodes"] + rest["nodes"]] == ["s2", "s1", "s0"]
    assert (await api.data(listed, s=["RUNNING"]))["sessions"]["nodes"] == []
    refused = await api.graphql(listed, s=["running"])
    assert "A session's status is one of PENDING" in refused["errors"][0]["message"]


@pytest.mark.parametrize("field", ["terminateSession(id: $id)", "cancelSession(id: $id)"])
async def test_a_session_is_ended_by_its_owner_and_not_by_others(api: Api, field: str) -> None:
    await owned(api)
    refused = (await api.data(END % field, user="bob", id="s1"))["answer"]
    assert (refused["class"], refused["detail"]["needs"]) == ("forbidden", "owner")
    assert api.sessions.ended == []
    answer = (await api.data(END % field, user="ann", id="s1"))["answer"]
    assert answer == {"__typename": "Session", "id": "s1"}
    assert api.sessions.ended == [(field.partition("Session")[0], "s1", "ann")]
    unknown = (await api.data(END % field, user="ann", id="nothing"))["answer"]
    assert unknown["__typename"] == "UnknownId"


async def test_a_superadmin_terminates_anybodys_session(api: Api) -> None:
    await owned(api)
    await api.data(END % "terminateSession(id: $id)", id="s1")
    assert api.sessions.ended == [("terminate", "s1", "root")]


async def test_a_superadmin_cancels_others_sessions_by_force_alone(api: Api) -> None:
    await owned(api)
    refused = (await api.data(END % "cancelSession(id: $id)", id="s1"))["answer"]
    assert refused["__typename"] == "Conflict"
    assert "is ann's: cancel it with force" in refused["message"]
    force = END % "cancelSession(id: $id, force: true)"
    denied = (await api.data(force, user="ann", id="s1"))["answer"]
    assert (denied["class"], denied["detail"]["needs"]) == ("forbidden", "superadmin")
    assert api.sessions.ended == []
    assert (await api.data(force, id="s1"))["answer"]["__typename"] == "Session"
    assert api.sessions.ended == [("cancel, forced", "s1", "root")]


async def test_a_superadmins_own_session_needs_no_force(api: Api) -> None:
    await owned(api, owner="root")
    answer = (await api.data(END % "cancelSession(id: $id)", id="s1"))["answer"]
    assert answer["__typename"] == "Session"


async def test_a_kernel_is_cancelled_with_its_session(api: Api) -> None:
    await owned(api)
    document = END % "forceCancelKernel(id: $id)"
    assert (await api.data(document, user="ann", id="s1-k1"))["answer"]["class"] == "forbidden"
    assert (await api.data(document, id="s1-k1"))["answer"] == {"__typename": "Session", "id": "s1"}
    assert api.sessions.ended == [("cancel, forced", "s1", "root")]
    assert (await api.data(document, id="x"))["answer"]["__typename"] == "UnknownId"


LIMITED = (
    "... on User { name scalingGroups limits { sessions cpu mem gpu }"
    " occupied { sessions cpu mem gpu } } " + FAILED
)
SET = (
    "mutation($mem: BigInt) { answer: setUserLimits(name: %s, maxSessions: 2, cpu: 1.5, mem: $mem,"
    ' scalingGroups: ["a"]) { ' + LIMITED + " } }"
)


async def test_limits_are_set_and_shown(api: Api) -> None:
    answer = (await api.data(SET % '"ann"', mem=5 * 10**9))["answer"]
    assert answer["limits"] == {"sessions": 2, "cpu": 1.5, "mem": 5 * 10**9, "gpu": None}
    assert answer["scalingGroups"] == ["a"]
    assert answer["occupied"] == {"sessions": 0, "cpu": 0.0, "mem": 0, "gpu": 0}
    changed = await api.data(
        'mutation { answer: setUserLimits(name: "ann", cpu: null, gpu: 0) { ' + LIMITED + " } }"
    )
    assert changed["answer"]["limits"] == {"sessions": 2, "cpu": None, "mem": 5 * 10**9, "gpu": 0}
    viewer = "{ viewer { scalingGroups limits { sessions gpu } occupied { cpu } } }"
    assert (await api.data(viewer, user="ann"))["viewer"] == {
        "scalingGroups": ["a"],
        "limits": {"sessions": 2, "gpu": 0},
        "occupied": {"cpu": 0.0},
    }
    assert (await api.data(SET % '"ghost"', mem=None))["answer"]["class"] == "unknown-id"


@pytest.mark.parametrize("wrong", ["cpu: 0.0001", "cpu: -1", "mem: -1", "maxSessions: -1"])
async def test_a_wrong_limit_is_named(api: Api, wrong: str) -> None:
    document = f'mutation {{ answer: setUserLimits(name: "ann", {wrong}) {{ {FAILED} }} }}'
    answer = (await api.data(document))["answer"]
    assert answer["class"] == "invalid-request"
    assert answer["detail"]["field"] in {"cpu", "mem", "sessions"}


async def test_what_users_and_agents_are_occupied_by_is_shown(api: Api) -> None:
    ann = await api.user_id("ann")
    await api.storage.write(add_session, owner_id=ann)
    await api.storage.write(advance, "s1-k1", upto=KernelStatus.RUNNING)
    users = (await api.data("{ users { name occupied { sessions cpu mem } } }"))["users"]
    assert {user["name"]: user["occupied"] for user in users}["ann"] == {
        "sessions": 1,
        "cpu": 1.5,
        "mem": 2**30,
    }
    api.fleet.views["one"] = replace(
        api.fleet.views["one"], occupied=Slots(1500).to_json(), sessions=1
    )
    agents = (await api.data("{ agents { occupied sessions } }"))["agents"]
    assert agents == [{"occupied": {"cpu": 1.5, "mem": 0, "gpu": 0}, "sessions": 1}]


@dataclass
class Output:
    """An agent that has this output of every container, and goes on until `ended`."""

    data: bytes = b"hello\n"
    error: Exception | None = None
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    readers: int = 0

    @asynccontextmanager
    async def kernel_log(
        self, agent_id: str, kernel_id: str, *, follow: bool, tail_bytes: int
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        del agent_id, kernel_id
        if self.error is not None and not follow:
            raise self.error
        self.readers += 1
        try:
            yield self._pieces(tail_bytes, follow=follow)
        finally:
            self.readers -= 1

    async def _pieces(self, tail_bytes: int, *, follow: bool) -> AsyncGenerator[bytes, None]:
        yield self.data[-tail_bytes:]
        if self.error is not None:
            raise self.error
        if follow:
            await self.ended.wait()


@dataclass
class Live:
    """A running API whose sessions are rows."""

    api: Api
    bus: MemoryBus
    agent: Output

    async def change(self, kernel_id: str, *states: KernelStatus) -> None:
        await self.api.storage.write(advance, kernel_id, *states, agent_id="one")
        await channels.ring(self.bus)

    @asynccontextmanager
    async def events(self, user: str = "ann", after: str = "") -> AsyncIterator[Stream]:
        headers = self.api.headers(user) | ({"Last-Event-ID": after} if after else {})
        async with self.api.client.stream(
            "GET", "/sessions/s1/events", headers=headers
        ) as response:
            yield Stream(response)

    async def log(self, user: str | None = "ann", **asked: Any) -> httpx2.Response:
        return await self.api.client.get(
            "/sessions/s1/logs", params=asked, headers=self.api.headers(user)
        )


@pytest.fixture
async def live(api: Api) -> AsyncIterator[Live]:
    bus, agent, storage = MemoryBus(), Output(), api.storage
    bells, pulls = SessionBells(storage, bus, reread=60.0), LivePulls(bus)
    bells.start()

    async def read(session_id: str) -> SessionView:
        return await storage.read(read_session, session_id)

    sessions: ToldSessions = api.sessions
    sessions.watched = SessionWatch(bells, pulls, read)
    sessions.logs = KernelLogs(storage, agent, bells)
    ann = await api.user_id("ann")
    await storage.write(add_session, owner_id=ann)
    sessions.views["s1"] = await read("s1")
    yield Live(api, bus, agent)
    await bells.stop()


async def test_a_session_is_watched_from_what_it_is_to_its_end(live: Live) -> None:
    async with live.events() as stream:
        assert stream.response.headers["content-type"].startswith("text/event-stream")
        first = await stream.next()
        assert first is not None
        assert (first.kind, first.data["id"]) == ("session_updated", "s1")
        await live.change("s1-k1", *LIFE)
        told = await stream.rest()
    moves = [event.data["transition"]["to"] for event in told if event.kind == "kernel_updated"]
    assert moves == [state.value for state in LIFE]
    assert told[-1].kind == "session_ended"
    async with live.events("root", after=told[-3].id) as stream:
        again = await stream.rest()
    assert [event.kind for event in again] == ["session_updated", "kernel_updated", "session_ended"]


async def test_nobody_else_watches_or_reads(live: Live) -> None:
    for path in ("/sessions/s1/events", "/sessions/s1/logs"):
        answer = await live.api.client.get(path, headers=live.api.headers("bob"))
        assert answer.status_code == 403
        assert answer.json()["error"]["detail"]["needs"] == "owner"
        unknown = path.replace("s1", "nothing")
        answer = await live.api.client.get(unknown, headers=live.api.headers("bob"))
        assert answer.status_code == 404


async def test_draining_ends_watches_and_logs(live: Live) -> None:
    await live.change("s1-k1", *LIFE[: LIFE.index(KernelStatus.RUNNING) + 1])
    logs = live.api.client.stream(
        "GET", "/sessions/s1/logs", params={"follow": "true"}, headers=live.api.headers("ann")
    )
    async with live.events() as stream, logs as log:
        assert await stream.next() is not None
        pieces = log.aiter_raw()
        assert await anext(pieces) == b"hello\n"
        await live.api.server.stop()
        assert await stream.rest() == []
        with pytest.raises(httpx2.RemoteProtocolError):  # it is not whole, and does not seem so
            await anext(pieces)
    assert live.agent.readers == 0


async def test_a_log_is_raw_bytes(live: Live) -> None:
    await live.change("s1-k1", *LIFE[: LIFE.index(KernelStatus.RUNNING) + 1])
    live.agent.data = b"\xff\x00line\r\n"
    answer = await live.log()
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert "x-log-truncated" not in answer.headers
    assert answer.content == b"\xff\x00line\r\n"
    assert (await live.log(tail=3, kernel="s1-k1")).content == b"e\r\n"


async def test_a_log_is_followed_until_the_container_ends(live: Live) -> None:
    await live.change("s1-k1", *LIFE[: LIFE.index(KernelStatus.RUNNING) + 1])
    asked = asyncio.create_task(live.log(follow="true"))
    async with asyncio.timeout(10):
        while not live.agent.readers:  # noqa: ASYNC110 - what others hold has no event
            await asyncio.sleep(0.01)
    live.agent.ended.set()
    assert (await asked).content == b"hello\n"


@pytest.mark.parametrize(
    ("asked", "status", "failure_class"),
    [
        ({}, 409, "conflict"),
        ({"kernel": "x"}, 404, "unknown-id"),
        ({"kernel": "x\0"}, 400, "invalid-request"),
        ({"tail": "-1"}, 400, "invalid-request"),
        ({"tail": str(2**21)}, 400, "invalid-request"),
        ({"follow": "maybe"}, 400, "invalid-request"),
    ],
)
async def test_a_log_that_cannot_be_read_is_refused(
    live: Live, asked: dict[str, str], status: int, failure_class: str
) -> None:
    answer = await live.log(**asked)
    assert answer.status_code == status
    assert answer.json()["error"]["class"] == failure_class


async def test_an_agent_that_does_not_answer_is_told(live: Live) -> None:
    await live.change("s1-k1", *LIFE[: LIFE.index(KernelStatus.RUNNING) + 1])
    live.agent.error = AgentUnreachable("agent one does not answer")
    answer = await live.log()
    assert answer.status_code == 502
    assert answer.json()["error"]["message"] == "agent one does not answer"


async def test_a_log_that_breaks_off_does_not_look_whole(live: Live) -> None:
    await live.change("s1-k1", *LIFE[: LIFE.index(KernelStatus.RUNNING) + 1])
    live.agent.error = AgentUnreachable("cut")
    with pytest.raises(httpx2.RemoteProtocolError):
        await live.log(follow="true")
    assert live.agent.readers == 0


async def test_a_reader_that_goes_frees_the_agents_stream(live: Live) -> None:
    await live.change("s1-k1", *LIFE[: LIFE.index(KernelStatus.RUNNING) + 1])
    async with live.api.client.stream(
        "GET", "/sessions/s1/logs", params={"follow": "true"}, headers=live.api.headers("ann")
    ) as log:
        await anext(log.aiter_raw())
        assert live.agent.readers == 1
    async with asyncio.timeout(10):
        while live.agent.readers:  # noqa: ASYNC110 - what others hold has no event
            await asyncio.sleep(0.01)
