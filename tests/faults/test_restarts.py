"""The whole program killed or stopped in the middle of its work."""

from rig import processes
from rig.cluster import Engines
from rig.proxy import FaultProxy, Rate
from rig.registry import Registry
from rig.samples import push_sample
from rig.server import Server
from rig.watching import watch

SLOW = 400_000


def test_after_a_kill_the_next_start_goes_on_with_the_same_task(
    own_server: Server, engines: Engines, registry: Registry, proxy: FaultProxy
) -> None:
    quick = push_sample(registry.host, "restarts/quick", layers=1)
    slow = push_sample(registry.host, "restarts/slow", layers=1, size=3_000_000)
    proxy.rules(Rate(f"GET .*/blobs/{slow.blobs[1]}", bytes_per_second=SLOW))
    references = (quick.at(proxy.host), slow.at(proxy.host))
    started = own_server.cli(
        "image", "preload", *references, "--agents", "left-1", "--detach", "--json"
    )
    task_id = started.json["id"]
    proxy.wait_for(f"GET .*/blobs/{slow.blobs[1]}", sent=200_000)
    for event in watch(own_server, task_id):
        if any(item["status"] == "done" for item in event.data["items"]):
            break
    pulled_before = [e for e in proxy.log if e.path.endswith(quick.blobs[1])]

    own_server.kill()
    proxy.rules()
    own_server.start()
    ended = own_server.wait_task(task_id)

    assert ended.code == 0, ended
    assert [item["status"] for item in ended.json["items"]] == ["done", "done"]
    pulled = [e for e in proxy.log if e.path.endswith(quick.blobs[1])]
    assert len(pulled) == len(pulled_before)
    for sample in (quick, slow):
        image = engines[0].api("GET", f"/images/{sample.at(proxy.host)}/json")[1]
        assert image["RepoDigests"] == [sample.pinned(proxy.host)]


def test_what_was_promised_right_before_a_kill_is_kept(
    own_server: Server, engines: Engines, registry: Registry, proxy: FaultProxy
) -> None:
    sample = push_sample(registry.host, "restarts/promised", layers=1, size=4_000_000)
    reference = sample.at(proxy.host)
    proxy.rules(Rate("GET .*/blobs/", bytes_per_second=SLOW))

    started = own_server.cli("image", "preload", reference, "--all-agents", "--detach", "--json")
    own_server.kill()
    proxy.forget()
    own_server.start()
    proxy.wait_for(f"GET .*/blobs/{sample.blobs[1]}", sent=100_000, within=20)

    assert own_server.cli("task", "cancel", started.json["id"]).code == 0
    own_server.kill()
    own_server.start()
    ended = own_server.wait_task(started.json["id"])

    assert ended.json["status"] == "cancelled"
    assert {item["status"] for item in ended.json["items"]} == {"cancelled"}
    assert processes.wait_until(lambda: all(e.ended for e in proxy.log), within=5)
    for engine in engines:
        assert engine.api("GET", f"/images/{reference}/json")[0] == 404


def test_a_stop_with_open_streams_and_running_pulls_takes_seconds(
    own_server: Server, registry: Registry, proxy: FaultProxy
) -> None:
    sample = push_sample(registry.host, "restarts/stopped", layers=1, size=5_000_000)
    proxy.rules(Rate("GET .*/blobs/", bytes_per_second=SLOW))
    reference = sample.at(proxy.host)
    started = own_server.cli("image", "preload", reference, "--all-agents", "--detach", "--json")
    stream = watch(own_server, started.json["id"])
    next(stream)
    proxy.wait_for(f"GET .*/blobs/{sample.blobs[1]}", sent=100_000)

    assert own_server.stop() < 5.0

    assert [event.kind for event in stream if event.kind != "bgtask_updated"] == []
    proxy.rules()
    own_server.start()
    ended = own_server.wait_task(started.json["id"])
    assert ended.json["status"] == "succeeded"


def test_a_watcher_that_comes_back_with_an_id_of_before_gets_the_present_state(
    own_server: Server, registry: Registry
) -> None:
    reference = push_sample(registry.host, "restarts/watched", layers=1).at(registry.host)
    started = own_server.cli("image", "preload", reference, "--all-agents", "--detach", "--json")
    task_id = started.json["id"]
    first = list(watch(own_server, task_id))
    assert first[-1].kind == "bgtask_done"

    own_server.kill()
    own_server.start()

    again = list(watch(own_server, task_id, last_event_id=first[0].id))
    assert [event.kind for event in again] == ["bgtask_done"]
    assert {item["status"] for item in again[0].data["items"]} == {"done"}
