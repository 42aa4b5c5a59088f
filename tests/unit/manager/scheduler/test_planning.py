"""What a round decides, from pictures."""

from collections.abc import Mapping, Sequence
from typing import Any

from wharfinger.domain.platforms import Platform
from wharfinger.domain.sessions import Reason
from wharfinger.domain.slots import Quota, Slots
from wharfinger.manager.scheduler.decisions import Plan
from wharfinger.manager.scheduler.picture import (
    Account,
    Host,
    Picture,
    Rest,
    WaitingKernel,
    WaitingSession,
)
from wharfinger.manager.scheduler.planning import plan

DIGEST = "sha256:1"
LINUX = Platform("linux", "amd64")
ONE, TWO, FOUR = Slots(1), Slots(2), Slots(4)
NOW = 1000.0


def host(
    agent_id: str, capacity: Slots = FOUR, occupied: Slots | None = None, **differing: Any
) -> Host:
    usual: dict[str, Any] = {
        "scaling_group": "default", "platform": LINUX, "is_up": True, "cordoned": False,
        "capacity": capacity, "occupied": occupied or Slots(),
    }  # fmt: skip
    return Host(id=agent_id, **(usual | differing))


def session(session_id: str, *asked: Slots, owner: str = "ada", **differing: Any) -> WaitingSession:
    kernel: dict[str, Any] = {
        "reference": "h.test/image:v1",
        "root_digest": DIGEST,
    } | differing.pop("kernel", {})
    kernels = [
        WaitingKernel(id=f"{session_id}-{place}", slots=slots, **kernel)
        for place, slots in enumerate(asked or (ONE,))
    ]
    usual: dict[str, Any] = {"scaling_group": None, "blocked_since": None}
    return WaitingSession(id=session_id, owner_id=owner, kernels=kernels, **(usual | differing))


def planned(
    sessions: Sequence[WaitingSession],
    hosts: Sequence[Host],
    accounts: Mapping[str, Account] | None = None,
    **differing: Any,
) -> Plan:
    usual: dict[str, Any] = {"platforms": {DIGEST: (LINUX,)}}
    return plan(
        Picture(NOW, sessions, hosts, accounts or {}, **(usual | differing)), hold_after=60.0
    )


def bound(found: Plan) -> dict[str, list[str]]:
    return {each.session.id: list(each.agent_ids) for each in found.bindings}


def said(found: Plan) -> dict[str, Reason | None]:
    return {word.kernel_id: word.hold.info if word.hold else None for word in found.words}


def data(found: Plan, kernel_id: str) -> Mapping[str, Any]:
    return next(word.hold.data for word in found.words if word.kernel_id == kernel_id and word.hold)


def test_the_oldest_goes_first_whoever_owns_it() -> None:
    found = planned([session("s1", FOUR), session("s2", owner="bob")], [host("a")])
    assert bound(found) == {"s1": ["a"]}
    assert said(found) == {"s2-0": Reason.NO_FREE_SLOTS}
    assert found.waiting == 2


def test_a_younger_session_of_the_same_user_does_not_overtake() -> None:
    queue = [session("s1", FOUR), session("s2"), session("s3"), session("t", owner="bob")]
    found = planned(queue, [host("a", FOUR, ONE)])
    assert bound(found) == {"t": ["a"]}
    assert said(found) == {
        "s1-0": Reason.NO_FREE_SLOTS, "s2-0": Reason.IN_LINE, "s3-0": Reason.IN_LINE,
    }  # fmt: skip
    assert data(found, "s2-0") == {"sessionId": "s1"}
    assert data(found, "s3-0") == {"sessionId": "s2"}


def test_what_no_agent_could_ever_take_blocks_nobody() -> None:
    found = planned([session("s1", Slots(5)), session("s2")], [host("a")])
    assert bound(found) == {"s2": ["a"]}
    assert data(found, "s1-0")["agents"] == {"tooSmall": 1}
    assert not found.blocked


def test_what_could_never_go_together_blocks_nobody() -> None:
    found = planned([session("s1", FOUR, FOUR), session("s2")], [host("a")])
    assert bound(found) == {"s2": ["a"]}
    assert said(found) == {"s1-0": Reason.NO_SUITABLE_AGENT, "s1-1": Reason.NO_SUITABLE_AGENT}
    assert data(found, "s1-0")["together"] == 2


def test_what_resolves_or_is_between_tries_is_left_alone_and_blocks_nobody() -> None:
    resolving = session("s1", kernel={"root_digest": None, "info": Reason.RESOLVING_IMAGE})
    retrying = session("s2", kernel={"next_try_at": NOW + 7, "info": Reason.RETRYING})
    found = planned([resolving, retrying, session("s3")], [host("a")])
    assert bound(found) == {"s3": ["a"]}
    assert not found.words
    assert found.next_due == 7


def test_a_kernel_that_is_due_is_tried() -> None:
    due = session("s1", kernel={"next_try_at": NOW, "info": Reason.RETRYING})
    assert bound(planned([due], [host("a")])) == {"s1": ["a"]}


def test_a_ready_kernel_of_a_session_that_resolves_has_nothing_to_say() -> None:
    kernels = [
        WaitingKernel("s1-0", "h.test/image:v1", None, ONE, info=Reason.RESOLVING_IMAGE),
        WaitingKernel("s1-1", "h.test/image:v1", DIGEST, ONE, info=Reason.NO_FREE_SLOTS),
    ]
    found = planned([WaitingSession("s1", "ada", None, 5.0, kernels)], [host("a")])
    assert said(found) == {"s1-1": None}
    assert found.unblocked == ["s1"]


def test_a_session_over_quota_blocks_the_younger_ones() -> None:
    accounts = {"ada": Account(Quota(cpu=2), occupied=ONE)}
    found = planned([session("s1", TWO), session("s2")], [host("a")], accounts)
    assert not found.bindings
    assert said(found) == {"s1-0": Reason.USER_QUOTA_EXCEEDED, "s2-0": Reason.IN_LINE}


def test_what_is_planned_counts_towards_the_quota_and_the_number_of_sessions() -> None:
    queue = [session("s1"), session("s2"), session("t1", owner="bob"), session("t2", owner="bob")]
    accounts = {"ada": Account(Quota(cpu=1)), "bob": Account(max_sessions=1)}
    found = planned(queue, [host("a")], accounts)
    assert bound(found) == {"s1": ["a"], "t1": ["a"]}
    assert said(found) == {
        "s2-0": Reason.USER_QUOTA_EXCEEDED, "t2-0": Reason.USER_SESSIONS_EXCEEDED,
    }  # fmt: skip


def test_an_owner_who_is_gone_has_no_limits() -> None:
    assert bound(planned([session("s1", owner="gone")], [host("a")], {})) == {"s1": ["a"]}


def test_a_user_stays_in_the_groups_that_are_allowed() -> None:
    hosts = [host("a"), host("b", scaling_group="gpu")]
    accounts = {"ada": Account(scaling_groups=frozenset({"gpu"}))}
    assert bound(planned([session("s1")], hosts, accounts)) == {"s1": ["b"]}
    found = planned([session("s1", scaling_group="default")], hosts, accounts)
    assert data(found, "s1-0")["agents"] == {"scalingGroup": 2}


def test_all_kernels_of_a_session_are_placed_in_their_order() -> None:
    found = planned([session("s1", ONE, FOUR)], [host("a"), host("b", ONE)])
    assert bound(found) == {"s1": ["b", "a"]}


def test_a_kernel_with_few_agents_is_placed_before_its_siblings() -> None:
    kernels = [
        WaitingKernel("s1-0", "h.test/image:v1", DIGEST, ONE),
        WaitingKernel("s1-1", "h.test/image:arm", "sha256:arm", ONE),
    ]
    both = Host("a", "default", LINUX, True, False, ONE, Slots())
    found = planned(
        [WaitingSession("s1", "ada", None, None, kernels)],
        [both, host("b", ONE, platform=Platform("linux", "arm64"))],
        platforms={"sha256:arm": (LINUX,), DIGEST: (LINUX, Platform("linux", "arm64"))},
    )
    assert bound(found) == {"s1": ["b", "a"]}


def test_nothing_is_said_again_that_is_said_already() -> None:
    hosts = [host("a", FOUR, FOUR)]
    first = planned([session("s1")], hosts)
    word = first.words[0]
    assert word.hold is not None
    again = session(
        "s1", kernel={"info": word.hold.info, "data": word.hold.data}, blocked_since=NOW
    )
    found = planned([again], hosts)
    assert not found.words
    assert not found.blocked
    assert not found.unblocked


def test_the_first_of_a_line_without_room_is_noted_and_forgotten_with_another_reason() -> None:
    assert planned([session("s1")], [host("a", FOUR, FOUR)]).blocked == ["s1"]
    assert planned([session("s1", blocked_since=1.0)], []).unblocked == ["s1"]


def test_who_waited_long_holds_the_agents_it_could_use() -> None:
    queue = [
        session("s1", FOUR, blocked_since=NOW - 60),
        session("t1", owner="bob"),
        session("u1", owner="eve", scaling_group="other"),
    ]
    hosts = [host("a", FOUR, ONE), host("b", TWO, ONE), host("c", TWO, scaling_group="other")]
    found = planned(queue, hosts)
    assert bound(found) == {"t1": ["b"], "u1": ["c"]}
    found = planned([*queue, session("v1", owner="zoe", scaling_group="default")], hosts)
    assert data(found, "v1-0") == {
        "asked": ONE.to_json(), "candidates": 2, "heldFor": "s1",
    }  # fmt: skip


def test_who_waited_less_holds_nothing() -> None:
    queue = [session("s1", FOUR, blocked_since=NOW - 59), session("t1", owner="bob")]
    assert bound(planned(queue, [host("a", FOUR, ONE)])) == {"t1": ["a"]}


def test_a_hold_does_not_bind_those_who_are_older() -> None:
    queue = [session("t1", owner="bob"), session("s1", FOUR, blocked_since=0.0)]
    assert bound(planned(queue, [host("a")])) == {"t1": ["a"]}


def test_the_rest_of_a_bound_session_is_placed_before_its_line_and_counts_once() -> None:
    queue = [session("s1", FOUR), session("s2", rest=Rest.BOUND)]
    accounts = {"ada": Account(max_sessions=1, active=1)}
    found = planned(queue, [host("a", FOUR, TWO)], accounts)
    assert bound(found) == {"s2": ["a"]}
    assert not found.bindings[0].joins


def test_a_bound_session_whose_rest_finds_no_room_gives_back_what_it_has() -> None:
    found = planned([session("s1", rest=Rest.BOUND)], [host("a", FOUR, FOUR)])
    assert [(each.session_id, each.hold.info) for each in found.releases] == [
        ("s1", Reason.NO_FREE_SLOTS)
    ]


def test_a_session_that_may_have_a_container_gives_nothing_back() -> None:
    found = planned([session("s1", rest=Rest.STARTED)], [host("a", FOUR, FOUR)])
    assert not found.releases
    assert said(found) == {"s1-0": Reason.NO_FREE_SLOTS}
