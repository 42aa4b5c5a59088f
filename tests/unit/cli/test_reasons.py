"""Every word of a kernel's standing has a sentence, with whatever belongs to it."""

import pytest

from wharfinger.cli.advice import what_to_do
from wharfinger.cli.reasons import sentence
from wharfinger.domain.failures import FailureClass
from wharfinger.domain.sessions import Reason

FAILURE = {"class": "network", "message": "the registry is away", "detail": ""}


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_has_a_sentence_of_its_own_even_without_data(reason: Reason) -> None:
    told = sentence(reason.value, {})
    assert told
    assert "None" not in told
    others = {sentence(other.value, {}) for other in Reason if other is not reason}
    assert told not in others


@pytest.mark.parametrize(
    ("info", "data", "told"),
    [
        ("in-line", {"sessionId": "4f2a"}, "session 4f2a comes first"),
        (
            "user-sessions-exceeded",
            {"limit": 2, "active": 2},
            "the user has as many sessions as allowed: 2 of 2",
        ),
        (
            "user-quota-exceeded",
            {
                "exceeds": ["cpu", "mem"],
                "quota": {"cpu": 1.0, "mem": 2**30},
                "occupied": {"cpu": 0.75, "mem": 2**29, "gpu": 0},
                "asked": {"cpu": 0.5, "mem": 2**30, "gpu": 0},
            },
            (
                "the user's limit is reached: it asks for 0.5 cpu, and 0.75 of 1 is taken; "
                "it asks for 1.0 GiB mem, and 512 MiB of 1.0 GiB is taken"
            ),
        ),
        (
            "no-suitable-agent",
            {"asked": {"cpu": 1.0, "mem": 0, "gpu": 4}, "agents": {"tooSmall": 2, "cordoned": 1}},
            "no agent could take it (1 cpu, 4 gpu): 2 too small, 1 cordoned",
        ),
        ("no-suitable-agent", {"agents": {}}, "no agent could take it: there are none"),
        (
            "no-suitable-agent",
            {"together": 3},
            "no agents could take its 3 kernels at once, even if empty",
        ),
        (
            "no-free-slots",
            {"asked": {"cpu": 2.0, "mem": 0, "gpu": 0}, "candidates": 1, "heldFor": "4f2a"},
            (
                "1 agent could take it (2 cpu), but not now: too little is free; "
                "room is kept for session 4f2a, which waits longer"
            ),
        ),
        (
            "retrying",
            {"failure": FAILURE, "nextTryAt": "2026-01-02T03:04:05+00:00"},
            "tried again after network: the registry is away; next try at 2026-01-02 03:04:05 UTC",
        ),
        (
            "retrying",
            {"failure": FAILURE, "avoidedAgentId": "gpu-a"},
            "tried again after network: the registry is away; gpu-a is avoided for a while",
        ),
        (
            "registry-unreachable",
            {"failure": FAILURE},
            "its registry gives no answer after network: the registry is away",
        ),
        (
            "pending-image-preparation",
            {
                "kind": "preload",
                "taskId": "7c1d",
                "agentId": "gpu-a",
                "attemptId": "a1",
                "progress": {"current": 2**30, "total": 3 * 2**30, "unit": "bytes"},
                "etaSeconds": 40.0,
            },
            ("waits for image preparation: preload 7c1d on gpu-a, 1.0 GiB of 3.0 GiB, 0:40 left"),
        ),
        (
            "pending-image-preparation",
            {
                "taskId": "7c1d",
                "agentId": "gpu-a",
                "attemptId": None,
                "progress": None,
                "etaSeconds": None,
            },
            "waits for image preparation: task 7c1d on gpu-a",
        ),
        (
            "pending-image-preparation",
            {"kind": "unload", "taskId": "7c1d", "agentId": "gpu-a"},
            "waits for image preparation: unload 7c1d on gpu-a",
        ),
        ("agent-lost", {"agentId": "gpu-a"}, "agent gpu-a is not heard of"),
        ("session-ended", {"kernelId": "k2"}, "kernel k2 of its session ended"),
    ],
)
def test_what_belongs_to_a_reason_is_told(info: str, data: dict[str, object], told: str) -> None:
    assert sentence(info, data) == told


def test_a_word_of_a_newer_manager_stands_for_itself() -> None:
    assert sentence("waits-for-tide", {"taskId": "t"}) == "waits for tide"
    assert sentence("", {}) == ""


def test_what_comes_from_elsewhere_moves_no_cursor() -> None:
    failure = {"class": "network", "message": "gone\x1b[2J", "detail": ""}
    assert "\x1b" not in sentence("retrying", {"failure": failure})


@pytest.mark.parametrize("failure_class", FailureClass)
def test_there_is_something_to_do_about_every_failure(failure_class: FailureClass) -> None:
    assert what_to_do(failure_class.value)
