"""The catalogue through the public interfaces: which images users may ask for, and rescans."""

from collections.abc import Iterator
from typing import Any

import pytest
from rig import sessions
from rig.processes import wait_until
from rig.proxy import FaultProxy, Rate
from rig.registry import Registry
from rig.samples import push_sample
from rig.server import Outcome, Server
from rig.sessions import SLEEP, SMALL

SLOW = 400_000
"""Bytes per second of a throttled blob."""


@pytest.fixture(autouse=True)
def _ended_sessions(server: Server) -> Iterator[None]:
    """Whatever a test leaves running is ended after it."""
    yield
    left = [session["id"] for session in server.cli("session", "ls", "--json").json]
    if left:
        server.cli("session", "terminate", *left, "--wait", "--json")


@pytest.fixture(scope="module")
def ann(_server: Server) -> str:
    """The token of a plain user."""
    _server.agents_up()
    assert _server.cli("user", "add", "ann", "--json").code == 0
    return str(_server.cli("token", "create", "ann", "--label", "tests", "--json").json["token"])


def asked(server: Server, reference: str, token: str | None = None) -> Outcome:
    return server.cli("session", "create", "--json", reference, *SMALL, *SLEEP, token=token)


def images(server: Server, *arguments: str, token: str | None = None) -> dict[str, dict[str, Any]]:
    listed = server.cli("image", "ls", "--json", *arguments, token=token)
    assert listed.code == 0, listed
    return {image["reference"]: image for image in listed.json}


def test_a_user_may_ask_for_what_is_registered_until_it_is_forgotten(
    server: Server, registry: Registry, ann: str
) -> None:
    reference = push_sample(registry.host, "catalogue/registered", layers=0).at(registry.host)

    before = asked(server, reference, ann)
    assert server.cli("image", "register", reference, "--json").code == 0
    between = asked(server, reference, ann)
    assert server.cli("image", "forget", reference, "--json").code == 0
    after = asked(server, reference, ann)

    assert (before.code, between.code, after.code) == (1, 0, 1), between
    assert before.json["error"]["class"] == "not-found"
    assert before.json == after.json
    sessions.wait_for(server, between.json["id"], "RUNNING")


def test_a_superadmins_session_registers_its_image(
    server: Server, registry: Registry, ann: str
) -> None:
    reference = push_sample(registry.host, "catalogue/by-session", layers=0).at(registry.host)
    created = asked(server, reference)
    sessions.wait_for(server, created.json["id"], "RUNNING")
    assert images(server, "by-session")[reference]["status"] == "known"
    assert asked(server, reference, ann).code == 0


def test_who_is_not_granted_an_image_is_told_that_there_is_none(
    server: Server, registry: Registry, ann: str
) -> None:
    reference = push_sample(registry.host, "catalogue/secret/app", layers=0).at(registry.host)
    path = f"{registry.host}/catalogue/secret"
    assert server.cli("image", "preload", reference, "--all-agents", "--json").code == 0
    assert server.cli("registry", "grant", path, "--group", "ml", "--json").code == 0

    secret = asked(server, reference, ann)
    absent = asked(server, reference.replace("secret", "absent"), ann)
    hidden = images(server, "secret", token=ann)
    on_host = server.cli("agent", "show", "left-1", "--json", token=ann).json["images"]
    assert server.cli("user", "group", "ann", "--add", "ml", "--json").code == 0
    granted = asked(server, reference, ann)
    shown = images(server, "secret", token=ann)
    assert server.cli("user", "group", "ann", "--remove", "ml", "--json").code == 0

    assert (secret.code, absent.code) == (1, 1)
    assert secret.out.replace("secret", "absent") == absent.out
    assert hidden == {}
    assert reference not in {image["reference"] for image in on_host}
    assert granted.code == 0, granted
    assert list(shown) == [reference]
    sessions.wait_for(server, granted.json["id"], "RUNNING")


def test_a_rescan_finds_what_is_new_moved_and_gone(server: Server, registry: Registry) -> None:
    kept = push_sample(registry.host, "scanned/kept", layers=0)
    moved = push_sample(registry.host, "scanned/moved", layers=0)
    first = server.cli("image", "rescan", registry.host, "--json")
    again = server.cli("image", "rescan", registry.host, "--json")
    new = push_sample(registry.host, "scanned/moved", layers=1, size=1000)
    push_sample(registry.host, "scanned/added", layers=0)
    assert server.cli("image", "forget", kept.at(registry.host), "--json").code == 0
    second = server.cli("image", "rescan", registry.host, "--json")

    (counted,) = first.json["detail"]["registries"]
    (unchanged,) = again.json["detail"]["registries"]
    (changed,) = second.json["detail"]["registries"]
    assert (first.code, again.code, second.code) == (0, 0, 0), first
    assert counted["new"] >= 2
    assert (unchanged["new"], unchanged["moved"], unchanged["missing"]) == (0, 0, 0)
    assert (changed["new"], changed["moved"], changed["missing"]) == (1, 1, 0)
    known = images(server, "scanned/", "--registry", registry.host)
    assert known[moved.at(registry.host)]["rootDigest"] == new.root_digest
    assert known[kept.at(registry.host)]["status"] == "forgotten"


def test_a_rescan_does_not_run_beside_downloads_unless_it_waits(
    server: Server, registry: Registry, proxy: FaultProxy
) -> None:
    sample = push_sample(registry.host, "catalogue/blocking", layers=1, size=4_000_000)
    proxy.rules(Rate("GET .*/blobs/", bytes_per_second=SLOW))
    preload = server.cli(
        *("image", "preload", sample.at(proxy.host), "--agents", "left-1", "--detach", "--json")
    ).json["id"]

    refused = server.cli("image", "rescan", registry.host, "--json")
    queued = server.cli("image", "rescan", registry.host, "--wait", "--detach", "--json")
    later = server.cli(
        *("image", "preload", sample.at(registry.host), "--agents", "right-1", "--detach"),
        "--json",
    )

    assert refused.code == 1, refused
    assert refused.json["error"]["class"] == "rescan-blocked"
    assert refused.json["error"]["detail"]["taskIds"] == [preload]
    assert (queued.json["status"], queued.json["waitsFor"]) == ("pending", [preload])
    assert (later.json["status"], later.json["waitsFor"]) == ("pending", [queued.json["id"]])
    ended = [server.wait_task(task) for task in (preload, queued.json["id"], later.json["id"])]
    assert [task.code for task in ended] == [0, 0, 0], ended
    times = [(task.json["startedAt"], task.json["endedAt"]) for task in ended]
    assert times[0][1] <= times[1][0]
    assert times[1][1] <= times[2][0]


def test_no_pull_begins_that_would_leave_too_little_disk(
    own_server: Server, registry: Registry, proxy: FaultProxy
) -> None:
    own_server.stop()
    own_server.environment["WHARFINGER_DISK_MARGIN"] = "100000g"
    own_server.start()
    own_server.agents_up()
    sample = push_sample(registry.host, "catalogue/large", layers=1)
    reference = sample.at(proxy.host)

    planned = own_server.cli("image", "preload", reference, "--all-agents", "--dry-run", "--json")
    proxy.forget()
    ended = own_server.cli("image", "preload", reference, "--all-agents", "--json")

    assert (planned.code, ended.code) == (1, 1), planned
    assert {plan["failure"]["class"] for plan in planned.json} == {"no-space"}
    assert {item["failure"]["class"] for item in ended.json["items"]} == {"no-space"}
    assert "stay free" in ended.json["items"][0]["failure"]["message"]
    assert not [each for each in proxy.log if each.path.endswith(sample.blobs)]


def test_nobody_who_waits_is_forgotten_by_a_manager_that_dies(
    own_server: Server, registry: Registry, proxy: FaultProxy
) -> None:
    sample = push_sample(registry.host, "catalogue/waiting", layers=1, size=4_000_000)
    proxy.rules(Rate("GET .*/blobs/", bytes_per_second=SLOW))
    own_server.cli(
        *("image", "preload", sample.at(proxy.host), "--agents", "left-1", "--detach", "--json")
    )
    queued = own_server.cli("image", "rescan", "--wait", "--detach", "--json").json["id"]

    own_server.kill()
    own_server.start()
    own_server.agents_up()

    assert wait_until(
        lambda: (
            own_server.cli("task", "show", queued, "--json").json["status"]
            in {"succeeded", "partially_succeeded"}
        ),
        60,
    )
