"""What a round decides about sessions whose images are being prepared, from pictures."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from wharfinger.domain.gate import ImageKeys, PreparationKind
from wharfinger.domain.platforms import Platform
from wharfinger.domain.sessions import Reason
from wharfinger.domain.slots import Quota, Slots
from wharfinger.manager.gate.preparations import Preparation, Preparations
from wharfinger.manager.scheduler.decisions import Plan
from wharfinger.manager.scheduler.picture import (
    Account,
    Avoidance,
    Host,
    Picture,
    Rest,
    WaitingKernel,
    WaitingSession,
)
from wharfinger.manager.scheduler.placement import Room
from wharfinger.manager.scheduler.planning import plan

LINUX = Platform("linux", "amd64")
ONE, TWO, FOUR = Slots(1), Slots(2), Slots(4)
NOW = 1000.0
HELD = Reason.PENDING_IMAGE_PREPARATION


def host(agent_id: str, occupied: Slots | None = None, **differing: Any) -> Host:
    usual: dict[str, Any] = {
        "scaling_group": "default", "platform": LINUX, "is_up": True, "cordoned": False,
        "capacity": FOUR, "occupied": occupied or Slots(),
    }  # fmt: skip
    return Host(id=agent_id, **(usual | differing))


def session(
    session_id: str, *asked: Slots, image: str = "app", owner: str = "ada", **differing: Any
) -> WaitingSession:
    said = differing.pop("said", None)
    info = None if said is None else HELD
    kernels = [
        WaitingKernel(f"{session_id}-{place}", image, f"sha256:{image}", slots, None, info, said)
        for place, slots in enumerate(asked or (ONE,))
    ]
    usual: dict[str, Any] = {"scaling_group": None, "blocked_since": None}
    return WaitingSession(id=session_id, owner_id=owner, kernels=kernels, **(usual | differing))


def preparing(agent_id: str, image: str = "app", **differing: Any) -> Preparation:
    usual: dict[str, Any] = {
        "item_id": f"item-{agent_id}", "task_id": "task", "kind": PreparationKind.PRELOAD,
        "keys": ImageKeys(image, frozenset({f"sha256:{image}"})), "begun_at": NOW,
        "bytes_done": 0, "bytes_total": 100, "eta_seconds": None,
        "attempt_id": f"attempt-{agent_id}",
    }  # fmt: skip
    return Preparation(agent_id=agent_id, **(usual | differing))


def planned(
    sessions: Sequence[WaitingSession],
    hosts: Sequence[Host],
    *under_way: Preparation,
    accounts: Mapping[str, Account] | None = None,
    **differing: Any,
) -> Plan:
    picture = Picture(
        NOW, sessions, hosts, accounts or {}, preparations=Preparations(under_way), **differing
    )
    return plan(picture, hold_after=60.0)


def bound(found: Plan) -> dict[str, list[str]]:
    return {each.session.id: list(each.agent_ids) for each in found.bindings}


def said(found: Plan) -> dict[str, Reason | None]:
    return {word.kernel_id: word.hold.info if word.hold else None for word in found.words}


def data(found: Plan, kernel_id: str) -> Mapping[str, Any]:
    return next(word.hold.data for word in found.words if word.kernel_id == kernel_id and word.hold)


def test_no_kernel_goes_where_its_image_is_prepared_by_any_of_its_keys() -> None:
    by_name = preparing("a", keys=ImageKeys("app"))
    by_digest = preparing("b", keys=ImageKeys("other", frozenset({"sha256:app"})))
    another = preparing("c", "another")
    hosts = [host("a"), host("b"), host("c")]
    assert bound(planned([session("s1")], hosts, by_name, by_digest, another)) == {"s1": ["c"]}
    found = planned([session("s1")], hosts[:2], by_name, by_digest)
    assert not found.bindings
    assert said(found) == {"s1-0": HELD}


def test_a_session_that_is_held_back_tells_which_preparation_it_waits_for() -> None:
    found = planned([session("s1")], [host("a")], preparing("a", eta_seconds=9.0))
    assert data(found, "s1-0") == {
        "kind": "preload", "taskId": "task", "agentId": "a", "itemId": "item-a", "attemptId": "attempt-a",
        "progress": None, "etaSeconds": None,
    }  # fmt: skip
    assert found.held == ["s1"]
    assert not found.blocked


def test_it_tells_the_preparation_nearest_its_end_among_agents_with_room() -> None:
    hosts = [host("a"), host("b"), host("c"), host("d", FOUR)]
    under_way = [
        preparing("a"),
        preparing("b", eta_seconds=90.0),
        preparing("c", eta_seconds=60.0),
        preparing("d", eta_seconds=1.0),
    ]
    found = planned([session("s1")], hosts, *under_way)
    assert data(found, "s1-0")["agentId"] == "c"
    soon = preparing("a", kind=PreparationKind.UNLOAD, attempt_id=None)
    found = planned([session("s1")], hosts, soon, *under_way[1:])
    assert (data(found, "s1-0")["agentId"], data(found, "s1-0")["kind"]) == ("a", "unload")


def test_nothing_is_written_while_no_other_preparation_is_clearly_nearer() -> None:
    hosts, near = [host("a"), host("b")], preparing("b", eta_seconds=50.0)
    first = planned([session("s1")], hosts, preparing("a", eta_seconds=49.0), near)
    again = session("s1", said=data(first, "s1-0"), held_since=NOW)
    for seconds in (49.0, 55.0, 60.0):
        later = preparing("a", eta_seconds=seconds, bytes_done=int(seconds))
        found = planned([again], hosts, later, near)
        assert not found.words
        assert not found.held
    found = planned([again], hosts, preparing("a", eta_seconds=61.0), near)
    assert data(found, "s1-0")["agentId"] == "b"


def test_an_agent_that_is_full_beside_one_that_is_prepared_does_not_hide_the_preparation() -> None:
    found = planned([session("s1")], [host("a"), host("b", FOUR)], preparing("a"))
    assert said(found) == {"s1-0": HELD}


def test_agents_without_room_are_passed_over_once_for_all_that_are_held_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked_about: list[str] = []
    has_on = Room.has_on

    def counted(room: Room, agent_id: str, slots: Slots) -> bool:
        asked_about.append(agent_id)
        return has_on(room, agent_id, slots)

    monkeypatch.setattr(Room, "has_on", counted)
    full = [host(f"a-{number}", FOUR) for number in range(50)]
    under_way = [preparing(each.id, eta_seconds=1.0) for each in full]
    sessions = [session(f"s{number}", owner=f"user-{number}") for number in range(40)]
    found = planned(sessions, [*full, host("b")], *under_way, preparing("b"))
    assert [word.hold.data["agentId"] for word in found.words if word.hold] == ["b"] * 40
    assert all(asked_about.count(each.id) == 1 for each in full)


def test_without_room_the_end_of_a_preparation_would_not_help() -> None:
    found = planned([session("s1")], [host("a", FOUR), host("b", FOUR)], preparing("a"))
    assert said(found) == {"s1-0": Reason.NO_FREE_SLOTS}
    assert data(found, "s1-0")["candidates"] == 2
    assert found.blocked == ["s1"]


def test_what_no_agent_could_take_does_not_wait_for_a_preparation() -> None:
    avoided = {"sha256:app": {"a": Avoidance(NOW + 9, {"class": "no-space"})}}
    hosts = [host("a"), host("b", cordoned=True)]
    found = planned([session("s1")], hosts, preparing("a"), preparing("b"), avoided=avoided)
    assert said(found) == {"s1-0": Reason.NO_SUITABLE_AGENT}


def test_kernels_that_need_a_prepared_agent_together_are_held_back_together() -> None:
    found = planned([session("s1", FOUR, FOUR)], [host("a"), host("b")], preparing("b"))
    assert said(found) == {"s1-0": HELD, "s1-1": HELD}
    assert data(found, "s1-0")["agentId"] == "b"


def test_a_partly_bound_session_that_is_held_back_gives_its_slots_back() -> None:
    [release] = planned([session("s1", rest=Rest.BOUND)], [host("a")], preparing("a")).releases
    assert (release.session_id, release.hold.info) == ("s1", HELD)


def test_a_session_that_is_held_back_does_not_stop_younger_ones_of_its_user() -> None:
    queue = [session("s1"), session("s2", image="other"), session("s3")]
    found = planned(queue, [host("a")], preparing("a"))
    assert bound(found) == {"s2": ["a"]}
    assert said(found) == {"s1-0": HELD, "s3-0": HELD}


def test_younger_ones_of_its_user_leave_it_the_users_limits() -> None:
    queue = [session("s1", TWO), session("s2", TWO, image="other"), session("s3", image="other")]
    for account in (Account(Quota(cpu=3)), Account(max_sessions=1)):
        found = planned(queue, [host("a")], preparing("a"), accounts={"ada": account})
        assert not found.bindings
        assert said(found) == {"s1-0": HELD, "s2-0": Reason.IN_LINE, "s3-0": Reason.IN_LINE}
        assert data(found, "s2-0") == {"sessionId": "s1"}


def test_younger_ones_of_its_user_leave_it_the_room_and_those_of_others_do_not() -> None:
    mine = session("s2", TWO, image="other")
    queue = [session("s1", Slots(3)), mine, session("t1", TWO, image="other", owner="bob")]
    found = planned(queue, [host("a")], preparing("a"))
    assert bound(found) == {"t1": ["a"]}
    assert said(found) == {"s1-0": HELD, "s2-0": Reason.IN_LINE}
    small = session("s2", ONE, image="other")
    found = planned([queue[0], small], [host("a")], preparing("a"))
    assert bound(found) == {"s2": ["a"]}


def test_agents_are_not_held_for_a_session_while_a_preparation_keeps_it_from_them() -> None:
    """Nor is it forgotten how long it has waited for room."""
    waiting = session("s1", FOUR, blocked_since=NOW - 100)
    young = session("t1", image="other", owner="bob")
    found = planned([waiting, young], [host("a")], preparing("a"))
    assert bound(found) == {"t1": ["a"]}
    assert not found.blocked
    assert not found.unblocked
    found = planned([waiting, young], [host("a", ONE), host("b", ONE)], preparing("a"))
    assert bound(found) == {"t1": ["a"]}, "b is held, a is not"
