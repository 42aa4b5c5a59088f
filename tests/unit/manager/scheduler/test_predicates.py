"""The rules that keep sessions and kernels from their turn, one by one."""

from dataclasses import replace

import pytest

from wharfinger.domain.platforms import Platform
from wharfinger.domain.sessions import Reason
from wharfinger.domain.slots import Quota, Slots
from wharfinger.manager.scheduler import predicates
from wharfinger.manager.scheduler.picture import Avoidance, Host, Picture
from wharfinger.manager.scheduler.predicates import Ask, Cause

DIGEST = "sha256:1"
AMD64, ARM64 = Platform("linux", "amd64"), Platform("linux", "arm64")
HOST = Host(
    "a", "default", AMD64, is_up=True, cordoned=False, capacity=Slots(4, 4), occupied=Slots(4, 4)
)
ASK = Ask(Slots(1, 1), "h.test/image:v1", DIGEST)
FULL_DISK = {"class": "no-space", "message": "its disk is full", "detail": ""}
PICTURE = Picture(at=0.0, sessions=(), hosts=(HOST,), platforms={DIGEST: (AMD64,)})
AVOIDING = replace(PICTURE, avoided={DIGEST: {"a": Avoidance(60.0, FULL_DISK)}})


def test_nobody_ahead_lets_pass() -> None:
    assert predicates.in_line(None) is None


def test_an_older_session_comes_first() -> None:
    hold = predicates.in_line("s1")
    assert hold is not None
    assert (hold.info, hold.data, hold.blocks) == (Reason.IN_LINE, {"sessionId": "s1"}, True)


@pytest.mark.parametrize(("limit", "active"), [(None, 99), (2, 1), (1, 0)])
def test_fewer_sessions_than_allowed_let_pass(limit: int | None, active: int) -> None:
    assert predicates.sessions_exceeded(limit, active) is None


@pytest.mark.parametrize(("limit", "active"), [(2, 2), (0, 0), (1, 5)])
def test_as_many_sessions_as_allowed_hold_back(limit: int, active: int) -> None:
    hold = predicates.sessions_exceeded(limit, active)
    assert hold is not None
    assert hold.info is Reason.USER_SESSIONS_EXCEEDED
    assert hold.data == {"limit": limit, "active": active}


def test_what_fits_the_quota_exactly_passes() -> None:
    assert predicates.quota_exceeded(Quota(cpu=2000), Slots(1000), Slots(1000, 9, 9)) is None


def test_an_exceeded_quota_says_which_slots_and_by_what() -> None:
    hold = predicates.quota_exceeded(Quota(1500, 5), Slots(1000, 1), Slots(1000, 1))
    assert hold is not None
    assert hold.info is Reason.USER_QUOTA_EXCEEDED
    assert hold.data == {
        "exceeds": ["cpu"],
        "quota": {"cpu": 1.5, "mem": 5},
        "occupied": {"cpu": 1.0, "mem": 1, "gpu": 0},
        "asked": {"cpu": 1.0, "mem": 1, "gpu": 0},
    }
    assert hold.blocks


def test_what_exceeds_the_quota_by_itself_blocks_nobody() -> None:
    hold = predicates.quota_exceeded(Quota(gpu=1), Slots(), Slots(gpu=2))
    assert hold is not None
    assert not hold.blocks


@pytest.mark.parametrize(
    ("host", "ask", "picture", "cause"),
    [
        (HOST, ASK, PICTURE, None),
        (HOST, replace(ASK, session_group="gpu"), PICTURE, Cause.SCALING_GROUP),
        (HOST, replace(ASK, session_group="default"), PICTURE, None),
        (HOST, replace(ASK, user_groups=frozenset()), PICTURE, Cause.SCALING_GROUP),
        (HOST, replace(ASK, user_groups=frozenset({"default"})), PICTURE, None),
        (replace(HOST, is_up=False), ASK, PICTURE, Cause.NOT_UP),
        (replace(HOST, cordoned=True), ASK, PICTURE, Cause.CORDONED),
        (replace(HOST, platform=ARM64), ASK, PICTURE, Cause.ARCHITECTURE),
        (replace(HOST, platform=ARM64), replace(ASK, root_digest="unknown"), PICTURE, None),
        (HOST, replace(ASK, slots=Slots(5, 1)), PICTURE, Cause.TOO_SMALL),
        (HOST, ASK, AVOIDING, Cause.AVOIDED),
        (HOST, replace(ASK, root_digest="unknown"), AVOIDING, None),
    ],
)
def test_an_agent_is_ruled_out_by_the_first_cause(
    host: Host, ask: Ask, picture: Picture, cause: Cause | None
) -> None:
    assert predicates.cause_against(picture, host, ask) is cause


def test_no_suitable_agent_counts_causes_and_tells_what_is_avoided() -> None:
    picture = replace(AVOIDING, hosts=(HOST, replace(HOST, id="b", is_up=False)))
    causes = predicates.count_causes(picture, ASK)
    hold = predicates.no_suitable_agent(picture, ASK, causes)
    assert hold.info is Reason.NO_SUITABLE_AGENT
    assert not hold.blocks
    assert hold.data == {
        "asked": {"cpu": 0.001, "mem": 1, "gpu": 0},
        "agents": {"notUp": 1, "avoided": 1},
        "avoided": [{"agentId": "a", "until": "1970-01-01T00:01:00+00:00", "failure": FULL_DISK}],
    }


def test_no_free_slots_says_how_many_could_and_for_whom_they_are_held() -> None:
    assert predicates.no_free_slots(Slots(1000), 3, None).data == {
        "asked": {"cpu": 1.0, "mem": 0, "gpu": 0},
        "candidates": 3,
    }
    assert predicates.no_free_slots(Slots(), 1, "s1").data["heldFor"] == "s1"
