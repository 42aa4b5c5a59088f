"""Sessions through the public interfaces, on real engines."""

from collections.abc import Iterator
from itertools import pairwise

import pytest
from rig import sessions
from rig.cluster import Engines
from rig.engines import DockerEngine
from rig.processes import wait_until
from rig.proxy import FaultProxy, Rate, Status
from rig.registry import Registry
from rig.samples import Sample, push_sample
from rig.server import Server
from rig.sessions import SLEEP, SMALL

SLOW = 400_000
"""Bytes per second of a throttled blob."""
DENIED = '{"errors":[{"code":"DENIED","message":"not for you"}]}'
COLD = ["SCHEDULED", "PREPARING", "PULLING", "PREPARED", "CREATING", "RUNNING"]


@pytest.fixture(autouse=True)
def _ended_sessions(server: Server) -> Iterator[None]:
    """Whatever a test leaves running is ended after it."""
    yield
    left = [session["id"] for session in server.cli("session", "ls", "--json").json]
    if left:
        server.cli("session", "terminate", *left, "--wait", "--json")


def cold(registry: Registry, proxy: FaultProxy, name: str, size: int = 1_500_000) -> Sample:
    """A sample nobody holds, behind a slow proxy."""
    proxy.rules(Rate("GET .*/blobs/", bytes_per_second=SLOW))
    return push_sample(registry.host, f"sessions/{name}", layers=1, size=size)


def preload(server: Server, reference: str, *agents: str) -> None:
    where = ["--agents", ",".join(agents)] if agents else ["--all-agents"]
    done = server.cli("image", "preload", reference, *where, "--json")
    assert done.code == 0, done


def gets(proxy: FaultProxy, digest: str) -> int:
    """How often a blob was asked for."""
    return sum(e.method == "GET" and e.path.endswith(digest) for e in proxy.log)


def test_a_cold_session_tells_every_state_and_every_byte_and_runs(
    server: Server, engines: Engines, registry: Registry, proxy: FaultProxy
) -> None:
    sample = cold(registry, proxy, "cold")
    session = sessions.create(server, sample.at(proxy.host), "--sgroup", "left", *SLEEP)

    with sessions.watching(server, session["id"]) as watched:
        watched.wait_state("RUNNING")

    told = [state for _, state in watched.transitions]
    seen_first = watched.events[0].data["kernels"][0]["transitions"]
    assert [entry["to"] for entry in seen_first][1:] + told == COLD
    done = [pull["bytesDone"] for pull in watched.pulls]
    assert len(set(done)) > 2
    assert all(before <= after for before, after in pairwise(done))
    assert {pull["bytesTotal"] for pull in watched.pulls} == {sample.size}

    [container] = sessions.running(engines[0], session["id"])
    assert container["Config"]["Labels"]["wharfinger.kernel"] == session["kernels"][0]["id"]
    assert container["Config"]["Labels"]["wharfinger.owner"] == "admin"
    shown = sessions.show(server, session["id"])
    assert shown["status"] == "RUNNING"
    assert shown["kernels"][0]["rootDigest"] == sample.root_digest
    assert shown["kernels"][0]["agentId"] == "left-1"
    assert (shown["statusInfo"], shown["statusData"]) == ("", None)


def test_ten_sessions_of_one_cold_image_on_one_agent_cause_one_pull_and_all_run(
    server: Server, engines: Engines, registry: Registry, proxy: FaultProxy
) -> None:
    sample = cold(registry, proxy, "ten")
    ten = [
        sessions.create(server, sample.at(proxy.host), "--sgroup", "left", *SMALL, *SLEEP)["id"]
        for _ in range(10)
    ]

    ended = [sessions.wait_for(server, session_id, "RUNNING") for session_id in ten]

    assert {session["kernels"][0]["agentId"] for session in ended} == {"left-1"}
    assert [gets(proxy, digest) for digest in sample.blobs] == [1] * len(sample.blobs)
    assert sum(len(sessions.running(engines[0], session_id)) for session_id in ten) == 10


def test_a_warm_start_never_shows_pulling_and_needs_no_registry(
    server: Server, registry: Registry, proxy: FaultProxy
) -> None:
    reference = push_sample(registry.host, "sessions/warm").at(proxy.host)
    preload(server, reference)
    proxy.rules(Status(".*", code=503))
    proxy.forget()

    done = server.cli("session", "create", reference, "--wait", "--json", *SLEEP)

    assert done.code == 0, done
    assert sessions.states(done.json)[1:] == [state for state in COLD if state != "PULLING"]
    assert proxy.log == []


def test_a_batch_commands_exit_code_ends_the_session_and_its_log_is_kept(
    server: Server, engines: Engines, registry: Registry
) -> None:
    reference = push_sample(registry.host, "sessions/batch").at(registry.host)
    script = "echo told; echo aside >&2; exit 3"
    batch = ("--env", "A=1", "--", "/bin/busybox", "sh", "-c", script)

    session = sessions.create(server, reference, *batch)
    ended = sessions.wait_for(server, session["id"], "TERMINATED")

    assert ended["kernels"][0]["exitCode"] == 3
    log = server.cli("session", "logs", session["id"])
    assert sorted(log.out.splitlines()) == ["aside", "told"]
    assert wait_until(lambda: sessions.nothing_left(server, engines), 20)
    assert server.cli("session", "watch", session["id"]).code == 1


def test_a_log_is_followed_until_the_command_ends(server: Server, registry: Registry) -> None:
    reference = push_sample(registry.host, "sessions/follow").at(registry.host)
    script = "for i in 1 2 3; do echo line $i; /bin/busybox sleep 0.3; done"
    session = sessions.create(server, reference, "--", "/bin/busybox", "sh", "-c", script)

    followed = server.cli("session", "logs", session["id"], "--follow")

    assert followed.code == 0, followed
    assert followed.out.splitlines() == ["line 1", "line 2", "line 3"]


def test_what_a_session_asked_for_is_what_its_container_is_limited_to(
    server: Server, engines: Engines, registry: Registry
) -> None:
    reference = push_sample(registry.host, "sessions/limits").at(registry.host)
    asked = ("--cpu", "0.5", "--mem", "96m", "--sgroup", "right", "--env", "X=a b=c")

    done = server.cli("session", "create", reference, *asked, "--wait", "--json", *SLEEP)

    assert done.code == 0, done
    [container] = sessions.running(engines[1], done.json["id"])
    host = container["HostConfig"]
    assert (host["NanoCpus"], host["Memory"]) == (500_000_000, 96 * 2**20)
    assert not host["Privileged"]
    assert host["NetworkMode"] == "none"
    assert "X=a b=c" in container["Config"]["Env"]
    agents = {agent["id"]: agent for agent in server.cli("agent", "ls", "--json").json}
    assert agents["right-1"]["occupied"] == {"cpu": 0.5, "mem": 96 * 2**20, "gpu": 0}


def test_a_terminated_session_frees_all_it_had(
    server: Server, engines: Engines, registry: Registry
) -> None:
    reference = push_sample(registry.host, "sessions/terminated").at(registry.host)
    done = server.cli("session", "create", reference, "--wait", "--json", *SLEEP)
    assert done.code == 0, done

    ended = server.cli("session", "terminate", done.json["id"], "--wait", "--json")

    assert ended.code == 0, ended
    session = sessions.show(server, done.json["id"])
    assert session["status"] == "TERMINATED"
    assert session["kernels"][0]["exitCode"] == 0
    assert wait_until(lambda: sessions.nothing_left(server, engines), 20)


def test_force_cancel_of_one_of_two_that_wait_for_a_pull_lets_the_other_start(
    server: Server, registry: Registry, proxy: FaultProxy
) -> None:
    sample = cold(registry, proxy, "one-of-two")
    asked = (sample.at(proxy.host), "--sgroup", "left", *SMALL, *SLEEP)
    first, second = (sessions.create(server, *asked)["id"] for _ in range(2))
    for session_id in (first, second):
        sessions.wait_for(server, session_id, "PULLING")

    cancelled = server.cli("session", "cancel", first, "--force", "--json")

    assert cancelled.code == 0, cancelled
    assert cancelled.json["status"] == "CANCELLED"
    assert sessions.wait_for(server, second, "RUNNING")
    assert gets(proxy, sample.blobs[1]) == 1


def test_force_cancel_of_the_only_one_stops_the_download(
    server: Server, engines: Engines, registry: Registry, proxy: FaultProxy
) -> None:
    sample = cold(registry, proxy, "only-one", size=8_000_000)
    session = sessions.create(server, sample.at(proxy.host), "--sgroup", "left", *SLEEP)
    blob = proxy.wait_for(f"GET .*/blobs/{sample.blobs[1]}", sent=200_000)
    sessions.wait_for(server, session["id"], "PULLING")

    cancelled = server.cli("session", "cancel", session["id"], "--force", "--json")

    assert cancelled.json["status"] == "CANCELLED"
    assert wait_until(lambda: blob.ended, 10)
    assert blob.sent < 4_000_000
    status, _ = engines[0].api("GET", f"/images/{sample.at(proxy.host)}/json")
    assert status == 404
    assert wait_until(lambda: sessions.nothing_left(server, engines), 20)


def test_an_image_that_does_not_exist_ends_the_session_with_the_registrys_text(
    server: Server, registry: Registry
) -> None:
    done = server.cli(
        "session", "create", f"{registry.host}/no/such:v1", "--wait", "--json", *SLEEP
    )

    assert done.code == 1, done
    assert done.json["status"] == "ERROR"
    assert done.json["kernels"][0]["failure"]["class"] == "not-found"
    assert "manifest unknown" in done.json["kernels"][0]["failure"]["detail"].lower()


def test_a_registry_that_is_down_for_a_while_ends_nothing(
    server: Server, registry: Registry, proxy: FaultProxy
) -> None:
    reference = push_sample(registry.host, "sessions/away").at(proxy.host)
    proxy.rules(Status(".*", code=503))

    session = sessions.create(server, reference, *SLEEP)
    waiting = sessions.wait_for(
        server, session["id"], lambda seen: seen["statusInfo"] == "registry-unreachable"
    )
    third_try = lambda: sum("manifests" in e.path for e in proxy.log) >= 4  # noqa: E731
    assert wait_until(third_try, 60)  # about 20 s later
    proxy.rules()

    assert waiting["statusData"]["failure"]["class"] == "registry-error"
    assert sessions.wait_for(server, session["id"], "RUNNING")


def test_of_two_cold_sessions_only_those_the_quota_fits_run(
    server: Server, registry: Registry, proxy: FaultProxy
) -> None:
    assert server.cli("user", "add", "frugal", "--json").code == 0
    assert server.cli("user", "limit", "frugal", "--cpu", "1", "--json").code == 0
    token = server.cli("token", "create", "frugal", "--label", "test", "--json").json["token"]
    sample = cold(registry, proxy, "quota")
    assert server.cli("image", "register", sample.at(proxy.host), "--json").code == 0
    first, second = (
        sessions.create(
            server, sample.at(proxy.host), "--cpu", "0.75", "--mem", "64m", *SLEEP, token=token
        )["id"]
        for _ in range(2)
    )

    def settled() -> bool:
        return sorted(sessions.show(server, each)["status"] for each in (first, second)) == [
            "PENDING",
            "RUNNING",
        ]

    assert wait_until(settled, 60)
    one, other = (first, second)
    if sessions.show(server, one)["status"] != "RUNNING":
        one, other = second, first
    waits = sessions.wait_for(
        server, other, lambda seen: seen["statusInfo"] == "user-quota-exceeded"
    )
    assert waits["kernels"][0]["agentId"] is None
    server.cli("session", "terminate", one, "--wait", token=token)
    assert sessions.wait_for(server, other, "RUNNING")


def test_when_one_of_three_kernels_fails_for_ever_none_of_them_starts(
    server: Server, engines: Engines, registry: Registry, proxy: FaultProxy
) -> None:
    good = [push_sample(registry.host, f"sessions/good-{n}").at(registry.host) for n in range(2)]
    bad = push_sample(registry.host, "sessions/denied", layers=1)
    proxy.rules(Status(f"GET .*/blobs/{bad.blobs[1]}", code=403, body=DENIED))

    done = server.cli(
        *("session", "create", good[0], "--kernel", good[1], "--kernel", bad.at(proxy.host)),
        *(*SMALL, "--wait", "--json", *SLEEP),
    )

    assert done.code == 1, done
    assert [kernel["status"] for kernel in done.json["kernels"]] == ["ERROR"] * 3
    assert done.json["kernels"][2]["failure"]["class"] == "auth"
    assert all("CREATING" not in sessions.states(done.json, n) for n in range(3))
    assert wait_until(lambda: sessions.nothing_left(server, engines), 20)


def test_an_image_pruned_before_its_container_was_made_is_fetched_again(
    server: Server, engines: Engines, registry: Registry, proxy: FaultProxy
) -> None:
    ready = push_sample(registry.host, "sessions/pruned").at(registry.host)
    slow = cold(registry, proxy, "holds-it-up")
    session = sessions.create(
        server, ready, "--kernel", slow.at(proxy.host), "--sgroup", "left", *SMALL, *SLEEP
    )
    proxy.wait_for(f"GET .*/blobs/{slow.blobs[1]}", sent=200_000)
    sessions.wait_for(
        server,
        session["id"],
        lambda seen: seen["kernels"][0]["status"] == "PREPARED",
    )

    assert engines[0].api("DELETE", f"/images/{ready}")[0] == 200
    running = sessions.wait_for(server, session["id"], "RUNNING")

    ready_states = sessions.states(running)
    assert ready_states.count("PREPARING") > 1
    assert ready_states.index("CREATING") < len(ready_states) - 2


def test_nobody_sees_or_ends_somebody_elses_session(server: Server, registry: Registry) -> None:
    reference = push_sample(registry.host, "sessions/private").at(registry.host)
    assert server.cli("user", "add", "stranger", "--json").code == 0
    token = server.cli("token", "create", "stranger", "--label", "test", "--json").json["token"]
    session = sessions.create(server, reference, *SLEEP)["id"]

    for command in (("show",), ("logs",), ("terminate",), ("cancel",), ("cancel", "--force")):
        refused = server.cli("session", *command, session, token=token)
        assert refused.code == 4, (command, refused)
    assert server.cli("session", "ls", "--json", token=token).json == []


def remove_by_hand(engine: DockerEngine, session_id: str) -> None:
    for container in sessions.running(engine, session_id):
        assert engine.api("DELETE", f"/containers/{container['Id']}?force=1")[0] == 204


def test_a_container_removed_by_hand_ends_the_session_and_says_so(
    server: Server, engines: Engines, registry: Registry
) -> None:
    reference = push_sample(registry.host, "sessions/vanished").at(registry.host)
    session = sessions.create(server, reference, "--sgroup", "left", *SLEEP)["id"]
    sessions.wait_for(server, session, "RUNNING")

    remove_by_hand(engines[0], session)
    ended = sessions.wait_for(server, session, lambda seen: seen["endedAt"] is not None)

    assert ended["status"] == "ERROR"
    assert ended["statusInfo"] in {"container-vanished", "failed"}
    assert wait_until(lambda: sessions.nothing_left(server, engines), 20)


def test_the_end_of_a_command_is_noticed_at_once(server: Server, registry: Registry) -> None:
    reference = push_sample(registry.host, "sessions/noticed").at(registry.host)
    session = sessions.create(server, reference, "--", "/bin/busybox", "sleep", "2")["id"]
    with sessions.watching(server, session) as watched:
        watched.wait_state("RUNNING")
        watched.wait_state("TERMINATED", within=2 + 4)


def test_a_command_that_cannot_run_shuts_no_host_to_others(
    server: Server, registry: Registry
) -> None:
    reference = push_sample(registry.host, "sessions/typo").at(registry.host)

    typo = server.cli("session", "create", reference, "--wait", "--json", "--", "/bin/bsybox")
    right = server.cli("session", "create", reference, "--wait", "--json", *SLEEP)

    assert typo.code == 1, typo
    assert typo.json["kernels"][0]["failure"]["class"] == "unsupported"
    assert right.code == 0, right
