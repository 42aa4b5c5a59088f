"""Sample images as an agent is asked for them, and the calls that ask."""

import itertools
import re
from http import HTTPStatus
from typing import Any

from rig.engines import DockerEngine
from rig.images import LayerBlob, Pushed, push, random_layer
from rig.proxy import FaultProxy
from rig.recording_manager import RecordingManager
from rig.registry import Registry
from wharfinger.contracts.rpc import (
    CANCEL,
    CHECK_AND_PULL,
    CREATE_KERNELS,
    END_KERNELS,
    REMOVE_IMAGES,
    REMOVE_KERNELS,
    SURVEY_PULLS,
    SURVEY_REMOVALS,
)

_numbers = itertools.count(1)


class SampleImage:
    """An image nobody has seen before, as the agent is asked for it."""

    def __init__(
        self,
        registry: Registry,
        *,
        via: FaultProxy | None = None,
        size: int = 64 * 1024,
        layers: int = 2,
        architecture: str = "amd64",
        credentials: tuple[str, str] | None = None,
    ) -> None:
        self.repository = f"agent/image-{next(_numbers)}"
        self.name = f"{(via or registry).host}/{self.repository}"
        blobs = [random_layer(f"f{n}", size) for n in range(layers)]
        self.pushed = push(
            registry.host,
            self.repository,
            "v1",
            blobs,
            architecture=architecture,
            credentials=credentials,
        )

    @property
    def tag(self) -> str:
        """`host/name:v1`."""
        return f"{self.name}:v1"

    @property
    def pinned(self) -> str:
        """`host/name@digest`."""
        return f"{self.name}@{self.pushed.root_digest}"

    @property
    def layers(self) -> tuple[LayerBlob, ...]:
        """As pushed."""
        return self.pushed.layers

    def order(
        self,
        attempt_id: str,
        *,
        reference: str | None = None,
        policy: str = "preload",
        pushed: Pushed | None = None,
        disk_margin: int = 0,
    ) -> dict[str, Any]:
        """A `PullOrder` on the wire; `pushed` stands for what the tag means by now."""
        pushed = pushed or self.pushed
        return {
            "attemptId": attempt_id,
            "reference": reference or self.tag,
            "rootDigest": pushed.root_digest,
            "layers": [{"digest": each.digest, "size": each.size} for each in pushed.layers],
            "diffIds": [each.diff_id for each in pushed.layers],
            "diskMargin": disk_margin,
            "policy": policy,
        }


async def pull(manager: RecordingManager, *orders: dict[str, Any]) -> list[dict[str, Any]]:
    """Ask for images: the answers."""
    status, body = await manager.call(CHECK_AND_PULL, {"orders": list(orders)})
    assert status == HTTPStatus.OK, body
    return list(body["answers"])


async def survey_pulls(manager: RecordingManager, *orders: dict[str, Any]) -> dict[str, Any]:
    """Ask what pulls would meet: the reply."""
    status, body = await manager.call(SURVEY_PULLS, {"orders": list(orders)})
    assert status == HTTPStatus.OK, body
    return dict(body)


async def cancel(manager: RecordingManager, *attempt_ids: str) -> list[str]:
    """Cancel attempts: the outcomes."""
    status, body = await manager.call(CANCEL, {"attemptIds": list(attempt_ids)})
    assert status == HTTPStatus.OK, body
    return [answer["outcome"] for answer in body["answers"]]


def held(engine: DockerEngine, name: str) -> dict[str, Any] | None:
    """What the engine itself says of a name; None when it is not there."""
    status, body = engine.api("GET", f"/images/{name}/json")
    return body if status == HTTPStatus.OK else None


def blob_gets(registry: Registry, image: SampleImage) -> list[str]:
    """The digests of the image's blobs, once for each time they were fetched."""
    found = (
        re.fullmatch(rf"/v2/{image.repository}/blobs/(\S+)", path)
        for method, path in registry.requests()
        if method == "GET"
    )
    return sorted(match[1] for match in found if match)


async def remove(
    manager: RecordingManager,
    *references: str,
    prefix: str = "r",
    image_id: str | None = None,
    deadline: float = 10.0,
) -> list[dict[str, Any]]:
    """Order removals with ids `r0`, `r1`, …: the answers."""
    orders = [
        {"removalId": f"{prefix}{n}", "reference": reference, "imageId": image_id}
        for n, reference in enumerate(references)
    ]
    status, body = await manager.call(REMOVE_IMAGES, {"orders": orders}, deadline=deadline)
    assert status == HTTPStatus.OK, body
    return list(body["answers"])


async def survey_removals(
    manager: RecordingManager, *references: str, want_bytes: bool = True
) -> list[dict[str, Any]]:
    """Ask what removals would meet: the surveys."""
    orders = [{"removalId": reference, "reference": reference} for reference in references]
    status, body = await manager.call(SURVEY_REMOVALS, {"orders": orders, "wantBytes": want_bytes})
    assert status == HTTPStatus.OK, body
    return list(body["surveys"])


def kernel(kernel_id: str, image_id: str, *command: str, gpu: int = 0) -> dict[str, Any]:
    """A `KernelOrder` on the wire, for half a processor and 64 MiB."""
    return {
        "kernelId": kernel_id,
        "sessionId": "s1",
        "owner": "somebody",
        "imageId": image_id,
        "reference": "example.org/busybox:v1",
        "command": list(command),
        "environment": {"GREETING": "hello"},
        "cpu": 500,
        "mem": 64 * 1024 * 1024,
        "gpu": gpu,
    }


async def create(
    manager: RecordingManager, *orders: dict[str, Any], deadline: float = 20.0
) -> list[dict[str, Any]]:
    """Order containers: the answers."""
    return await _kernels(manager, CREATE_KERNELS, {"orders": list(orders)}, deadline)


async def end(
    manager: RecordingManager,
    *kernel_ids: str,
    grace: float = 0.2,
    want_log: bool = True,
    deadline: float = 20.0,
) -> list[dict[str, Any]]:
    """Order containers stopped: the answers."""
    orders = [{"kernelId": each, "graceSeconds": grace, "wantLog": want_log} for each in kernel_ids]
    return await _kernels(manager, END_KERNELS, {"orders": orders}, deadline)


async def take_away(
    manager: RecordingManager, *kernel_ids: str, deadline: float = 20.0
) -> list[dict[str, Any]]:
    """Order ended containers removed: the answers."""
    return await _kernels(manager, REMOVE_KERNELS, {"kernelIds": list(kernel_ids)}, deadline)


async def _kernels(
    manager: RecordingManager, path: str, body: dict[str, Any], deadline: float
) -> list[dict[str, Any]]:
    status, answered = await manager.call(path, body, deadline=deadline)
    assert status == HTTPStatus.OK, answered
    return list(answered["answers"])
