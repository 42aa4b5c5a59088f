"""A container to be, as `POST /containers/create` takes it."""

from typing import Any, Final

from wharfinger.agent.engine.port import ContainerSpec

LEAST_CPU: Final = 10
"""Thousandths: the kernel refuses a share below a hundredth, and for the engine 0 is no limit."""
LEAST_MEM: Final = 6 * 1024 * 1024
"""Bytes: Docker refuses less, and for the engine 0 is no limit."""


def create_body(spec: ContainerSpec) -> dict[str, Any]:
    """The body. What is left out is the image's or the engine's own: entrypoint, log driver,
    capabilities, the network named `default`."""
    body: dict[str, Any] = {
        "Image": spec.image_id,
        "Labels": dict(spec.labels),
        "Env": [f"{name}={value}" for name, value in spec.environment.items()],
        "HostConfig": _host_config(spec),
    }
    if spec.command:
        body["Cmd"] = list(spec.command)
    return body


def _host_config(spec: ContainerSpec) -> dict[str, Any]:
    mem = max(spec.mem, LEAST_MEM)
    config: dict[str, Any] = {
        "NanoCpus": max(spec.cpu, LEAST_CPU) * 1_000_000,
        "Memory": mem,
        "MemorySwap": mem,  # memory and swap together: no swap
        "Privileged": False,
        "SecurityOpt": ["no-new-privileges"],
        "RestartPolicy": {"Name": "no"},
        "AutoRemove": False,
    }
    if spec.gpus:
        config["DeviceRequests"] = [
            {"Driver": "", "DeviceIDs": list(spec.gpus), "Capabilities": [["gpu"]]}
        ]
    if spec.network != "default":
        config["NetworkMode"] = spec.network
    return config
