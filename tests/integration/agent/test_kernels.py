"""Kernels on a real engine, through the agent's real RPC."""

import asyncio
import base64
import time
from typing import Any

import pytest
from rig import processes
from rig.agents import RunningAgent, StartAgent
from rig.engines import DockerEngine as Dockerd
from rig.images import busybox_layer, push
from rig.orders import SampleImage, create, end, kernel, remove, take_away
from rig.recording_manager import RecordingManager
from rig.registry import Registry

from wharfinger.agent.ours import AGENT, CLUSTER, KERNEL, container_name
from wharfinger.contracts.rpc import CREATE_KERNELS, KERNEL_LOG, LOG_LIMIT

NAME = container_name("k1")


@pytest.fixture
async def image(registry: Registry, dockerd: Dockerd) -> SampleImage:
    """An image with a shell, on the engine."""
    image = SampleImage(registry)
    image.pushed = push(registry.host, image.repository, "v1", [busybox_layer()])
    await asyncio.to_thread(dockerd.pull, image.tag)
    return image


@pytest.fixture
def image_id(image: SampleImage) -> str:
    return image.pushed.config_digest


@pytest.fixture
async def beside(start_agent: StartAgent, manager: RecordingManager) -> RunningAgent:
    """An agent whose containers have no network, once its manager has heard of containers."""
    started = await start_agent(network="none", gpu=2)
    await manager.until(lambda: any(report.containers is not None for report in manager.reports))
    return started


def shell(kernel_id: str, image_id: str, script: str) -> dict[str, Any]:
    return kernel(kernel_id, image_id, "sh", "-c", script)


def inspect(dockerd: Dockerd, name: str = NAME) -> dict[str, Any] | None:
    status, body = dockerd.api("GET", f"/containers/{name}/json")
    return body if status == 200 else None


async def made_on(dockerd: Dockerd) -> None:
    """Return when the engine has the container."""
    seen = await asyncio.to_thread(
        processes.wait_until, lambda: inspect(dockerd) is not None, within=10
    )
    assert seen


async def ended(manager: RecordingManager, kernel_id: str) -> None:
    def has_ended() -> bool:
        container = manager.container(kernel_id)
        return container is not None and container.ended

    await manager.until(has_ended)


def log_of(answer: dict[str, Any]) -> bytes:
    return base64.b64decode(answer["log"]["data"])


@pytest.mark.usefixtures("beside")
async def test_a_kernel_runs_as_ordered_and_is_reported_at_once(
    manager: RecordingManager, dockerd: Dockerd, image_id: str
) -> None:
    (answer,) = await create(manager, kernel("k1", image_id))
    assert answer["outcome"] == "started"
    assert answer["container"]["state"] == "running"
    began = time.monotonic()
    await manager.until(lambda: manager.container("k1") is not None)
    assert time.monotonic() - began < 1
    container = manager.container("k1")
    assert container is not None
    assert container.started_at == pytest.approx(time.time(), abs=20)
    await manager.until(lambda: manager.last.kernels_in_hand == ())
    made = inspect(dockerd)
    assert made is not None
    assert made["Config"]["Labels"] == {
        "wharfinger.session": "s1",
        "wharfinger.kernel": "k1",
        "wharfinger.owner": "somebody",
        "wharfinger.cluster": manager.CLUSTER_ID,
        "wharfinger.agent": "a1",
    }
    assert "GREETING=hello" in made["Config"]["Env"]
    assert made["HostConfig"]["NetworkMode"] == "none"
    assert made["HostConfig"]["Memory"] == 64 * 1024 * 1024
    assert made["HostConfig"]["NanoCpus"] == 500_000_000
    assert made["HostConfig"]["Privileged"] is False


@pytest.mark.usefixtures("beside")
async def test_capacity_is_what_the_engine_has_and_the_settings_add(
    manager: RecordingManager,
) -> None:
    capacity = manager.last.capacity
    assert capacity is not None
    assert capacity.cpu >= 1000
    assert capacity.mem > 2**28
    assert capacity.gpu == 2
    assert manager.registration.capacity == capacity


@pytest.mark.usefixtures("beside")
async def test_orders_of_one_kernel_make_one_container(
    manager: RecordingManager, dockerd: Dockerd, image_id: str
) -> None:
    order = kernel("k1", image_id)
    answers = await asyncio.gather(*(create(manager, order) for _ in range(3)))
    (later,) = await create(manager, order)
    ids = {answer["container"]["containerId"] for (answer,) in answers}
    assert ids == {later["container"]["containerId"]}
    assert len(dockerd.api("GET", "/containers/json?all=1")[1]) == 1


@pytest.mark.usefixtures("beside")
async def test_what_a_call_began_goes_on_after_its_deadline(
    manager: RecordingManager, image_id: str
) -> None:
    (early,) = await create(manager, kernel("k1", image_id), deadline=0.001)
    assert early["outcome"] == "creating"
    (late,) = await create(manager, kernel("k1", image_id))
    assert late["outcome"] == "started"


async def test_a_restarted_agent_adopts_what_it_had_begun(
    beside: RunningAgent,
    start_agent: StartAgent,
    manager: RecordingManager,
    dockerd: Dockerd,
    image_id: str,
) -> None:
    calling = asyncio.create_task(
        manager.call(CREATE_KERNELS, {"orders": [kernel("k1", image_id)]})
    )
    await made_on(dockerd)
    beside.task.cancel()
    await asyncio.gather(beside.task, calling, return_exceptions=True)
    made = inspect(dockerd)
    assert made is not None
    await start_agent(network="none")
    (answer,) = await create(manager, kernel("k1", image_id))
    assert answer["outcome"] == "started"
    assert answer["container"]["containerId"] == made["Id"]
    assert len(dockerd.api("GET", "/containers/json?all=1")[1]) == 1


async def test_containers_outlive_their_agent(
    beside: RunningAgent,
    start_agent: StartAgent,
    manager: RecordingManager,
    dockerd: Dockerd,
    image_id: str,
) -> None:
    await create(manager, kernel("k1", image_id))
    beside.task.cancel()
    await asyncio.gather(beside.task, return_exceptions=True)
    made = inspect(dockerd)
    assert made is not None
    assert made["State"]["Running"]
    reports = len(manager.reports)
    await start_agent(network="none")
    await manager.until(
        lambda: any(report.containers is not None for report in manager.reports[reports:])
    )
    container = manager.container("k1")
    assert container is not None
    assert container.container_id == made["Id"]


@pytest.mark.usefixtures("beside")
async def test_a_container_that_has_ended_is_not_run_again(
    manager: RecordingManager, dockerd: Dockerd, image_id: str
) -> None:
    order = shell("k1", image_id, "exit 3")
    await create(manager, order)
    await ended(manager, "k1")
    first = inspect(dockerd)
    (again,) = await create(manager, order)
    assert again["outcome"] == "started"
    assert again["container"]["ended"] is True
    assert again["container"]["exitCode"] == 3
    assert inspect(dockerd) == first


@pytest.mark.usefixtures("beside")
async def test_an_image_that_was_removed_is_gone(
    manager: RecordingManager, dockerd: Dockerd, image: SampleImage, image_id: str
) -> None:
    await remove(manager, image.tag)
    (answer,) = await create(manager, kernel("k1", image_id))
    assert answer["outcome"] == "image-gone"
    assert inspect(dockerd) is None


@pytest.mark.usefixtures("beside")
async def test_a_removal_finds_the_image_of_a_kernel_in_use(
    manager: RecordingManager, image: SampleImage, image_id: str
) -> None:
    await create(manager, kernel("k1", image_id))
    (answer,) = await remove(manager, image.tag)
    assert answer["failure"]["failureClass"] == "in-use"


@pytest.mark.usefixtures("beside")
async def test_a_command_that_is_not_there_fails_and_leaves_nothing(
    manager: RecordingManager, dockerd: Dockerd, image_id: str
) -> None:
    (answer,) = await create(manager, kernel("k1", image_id, "no-such-command"))
    assert answer["outcome"] == "failed"
    assert "no-such-command" in answer["failure"]["detail"] + answer["failure"]["message"]
    assert inspect(dockerd) is None
    await manager.until(lambda: manager.last.kernels_in_hand == ())
    assert manager.last.containers == ()


@pytest.mark.usefixtures("beside")
async def test_a_device_too_many_fails(manager: RecordingManager, image_id: str) -> None:
    (answer,) = await create(manager, kernel("k1", image_id, gpu=3))
    assert answer["outcome"] == "failed"
    assert answer["failure"]["failureClass"] == "engine-error"
    assert "2 of 2 are free" in answer["failure"]["message"]


@pytest.mark.usefixtures("beside")
async def test_an_end_tells_the_exit_code_and_the_log(
    manager: RecordingManager, image_id: str
) -> None:
    await create(manager, shell("k1", image_id, "echo out; echo err >&2; exit 7"))
    await ended(manager, "k1")
    for _ in range(2):
        (answer,) = await end(manager, "k1")
        assert answer["outcome"] == "ended"
        assert answer["container"]["exitCode"] == 7
        assert sorted(log_of(answer).split()) == [b"err", b"out"]
        assert answer["log"]["truncated"] is False
    (without,) = await end(manager, "k1", want_log=False)
    assert without["log"] is None


@pytest.mark.usefixtures("beside")
async def test_of_a_long_log_the_last_bytes_are_kept(
    manager: RecordingManager, image_id: str
) -> None:
    script = "/bin/busybox head -c 1500000 /dev/zero | /bin/busybox tr '\\0' x; echo the end"
    await create(manager, shell("k1", image_id, script))
    await ended(manager, "k1")
    (answer,) = await end(manager, "k1")
    assert answer["log"]["truncated"] is True
    assert len(log_of(answer)) == LOG_LIMIT
    assert log_of(answer).endswith(b"xxthe end\n")


@pytest.mark.usefixtures("beside")
async def test_a_process_that_ignores_the_request_to_end_is_ended(
    manager: RecordingManager, image_id: str
) -> None:
    await create(manager, shell("k1", image_id, "trap '' TERM; while true; do sleep 1; done"))
    (early,) = await end(manager, "k1", grace=1.0, deadline=0.2)
    assert early["outcome"] == "running"
    (late,) = await end(manager, "k1", grace=1.0)
    assert late["outcome"] == "ended"
    assert late["container"]["exitCode"] == 137


@pytest.mark.usefixtures("beside")
async def test_an_ended_kernel_is_never_made(manager: RecordingManager, image_id: str) -> None:
    (absent,) = await end(manager, "k1")
    (answer,) = await create(manager, kernel("k1", image_id))
    assert absent["outcome"] == "absent"
    assert answer["outcome"] == "ended"


@pytest.mark.usefixtures("beside")
async def test_an_end_in_the_middle_of_a_create_leaves_nothing_running(
    manager: RecordingManager, dockerd: Dockerd, image_id: str
) -> None:
    creating = asyncio.create_task(create(manager, kernel("k1", image_id)))
    await made_on(dockerd)
    (answer,) = await end(manager, "k1")
    assert answer["outcome"] in {"ended", "absent"}
    assert (await creating)[0]["outcome"] in {"started", "ended"}
    left = inspect(dockerd)
    assert left is None or not left["State"]["Running"]


@pytest.mark.usefixtures("beside")
async def test_only_what_has_ended_is_removed(
    manager: RecordingManager, dockerd: Dockerd, image_id: str
) -> None:
    await create(manager, kernel("k1", image_id))
    (refused,) = await take_away(manager, "k1")
    assert refused["failure"]["failureClass"] == "in-use"
    await end(manager, "k1")
    (removed,) = await take_away(manager, "k1")
    assert removed["failure"] is None
    assert inspect(dockerd) is None
    await manager.until(lambda: manager.last.containers == ())
    (again,) = await take_away(manager, "k1")
    assert again["failure"] is None


@pytest.mark.parametrize(
    "labels",
    [
        {},
        {KERNEL: "k1", CLUSTER: "another", AGENT: "a1"},
        {KERNEL: "k1", CLUSTER: RecordingManager.CLUSTER_ID, AGENT: "another"},
    ],
)
@pytest.mark.usefixtures("beside")
async def test_what_is_not_ours_is_neither_reported_nor_touched(
    manager: RecordingManager, dockerd: Dockerd, image: SampleImage, labels: dict[str, str]
) -> None:
    body = {"Image": image.tag, "HostConfig": dockerd.host_config(), "Labels": labels}
    _, made = await asyncio.to_thread(dockerd.api, "POST", f"/containers/create?name={NAME}", body)
    await asyncio.to_thread(dockerd.api, "POST", f"/containers/{NAME}/start")
    await create(manager, kernel("k2", image.pushed.config_digest))
    await manager.until(lambda: manager.container("k2") is not None)
    assert manager.container("k1") is None
    (taken,) = await create(manager, kernel("k1", image.pushed.config_digest))
    (ending,) = await end(manager, "k1")
    (removal,) = await take_away(manager, "k1")
    assert taken["outcome"] == "failed"
    assert ending["outcome"] == "absent"
    assert removal["failure"] is None
    left = inspect(dockerd)
    assert left is not None
    assert left["Id"] == made["Id"]
    assert left["State"]["Running"]


@pytest.mark.usefixtures("beside")
async def test_a_container_that_hands_remove_is_no_longer_reported(
    manager: RecordingManager, dockerd: Dockerd, image_id: str
) -> None:
    await create(manager, kernel("k1", image_id))
    await manager.until(lambda: manager.container("k1") is not None)
    await asyncio.to_thread(dockerd.api, "DELETE", f"/containers/{NAME}?force=1")
    began = time.monotonic()
    await manager.until(lambda: manager.last.containers == ())
    assert time.monotonic() - began < 2


@pytest.mark.usefixtures("beside")
async def test_no_list_is_reported_while_the_engine_is_gone(
    manager: RecordingManager, dockerd: Dockerd
) -> None:
    await asyncio.to_thread(dockerd.kill)
    await manager.until(lambda: manager.last.containers is None)
    await asyncio.to_thread(dockerd.start)
    await manager.until(lambda: manager.last.containers == ())


@pytest.mark.usefixtures("beside")
async def test_a_log_is_followed_to_the_containers_end(
    manager: RecordingManager, dockerd: Dockerd, image_id: str
) -> None:
    script = "trap 'echo late; exit 0' USR1; echo early; while true; do sleep 0.05; done"
    await create(manager, shell("k1", image_id, script))
    call = {"kernelId": "k1", "tailBytes": 3, "follow": True}
    async with asyncio.timeout(20):
        while not await _heard(manager, b"early\n"):
            pass
        async with manager.stream(KERNEL_LOG, call) as response:
            assert response.status == 200
            assert await response.content.readexactly(3) == b"ly\n"
            await asyncio.to_thread(dockerd.api, "POST", f"/containers/{NAME}/kill?signal=USR1")
            assert await response.content.read() == b"late\n"


async def _heard(manager: RecordingManager, said: bytes) -> bool:
    async with manager.stream(KERNEL_LOG, {"kernelId": "k1"}) as response:
        return await response.content.read() == said


async def test_a_followed_log_ends_with_its_agent(
    beside: RunningAgent, manager: RecordingManager, image_id: str
) -> None:
    await create(manager, shell("k1", image_id, "echo hello; sleep 3600"))
    call = {"kernelId": "k1", "follow": True}
    async with asyncio.timeout(20), manager.stream(KERNEL_LOG, call) as response:
        assert await response.content.readexactly(6) == b"hello\n"
        began = time.monotonic()
        beside.task.cancel()
        assert await response.content.read() == b""
        await asyncio.gather(beside.task, return_exceptions=True)
        assert time.monotonic() - began < 3


@pytest.mark.usefixtures("beside")
async def test_the_log_of_no_kernel_is_not_there(manager: RecordingManager) -> None:
    status, body = await manager.call(KERNEL_LOG, {"kernelId": "k1"})
    assert status == 404
    assert body["error"]["class"] == "unknown-id"
