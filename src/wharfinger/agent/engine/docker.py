"""The engine port on the Docker API: Docker Engine with either store, and Podman, which serves
the same API in a dialect of its own."""

import asyncio
import base64
import json
import math
import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from http import HTTPStatus
from typing import Final
from urllib.parse import quote

from wharfinger.agent.engine import container_entries, entries, events, history
from wharfinger.agent.engine.client import Answer, EngineClient, Limits, not_understood
from wharfinger.agent.engine.create_body import create_body
from wharfinger.agent.engine.data_root import DataRoot
from wharfinger.agent.engine.failure_texts import classify
from wharfinger.agent.engine.framing import JsonFrames
from wharfinger.agent.engine.json_fields import mapping, text
from wharfinger.agent.engine.log_frames import LogFrames, RawLog
from wharfinger.agent.engine.port import (
    Change,
    Container,
    ContainerDetail,
    ContainerSpec,
    EngineDescription,
    EngineError,
    ImageAbsent,
    LayerEvent,
    LocalImage,
    NameTaken,
    RegistryCredentials,
)
from wharfinger.agent.engine.pull_lines import StreamFailure, read_line
from wharfinger.contracts.wire import DiskSpace
from wharfinger.domain.failures import Failure, FailureClass
from wharfinger.domain.references import HUB, Reference

_ABSENT: Final = re.compile(
    r'no such image|image not known|reference does not exist|image ".*": not found', re.IGNORECASE
)
_CONTAINER_ABSENT: Final = re.compile(r"no such container", re.IGNORECASE)
_NAME_TAKEN: Final = re.compile(r"container name \S+ is already in use", re.IGNORECASE)
_PROCESS_ENDED: Final = re.compile(r"/proc/\d+/\w+: no such (?:process|file or directory)")
_LOOK_AGAIN_SECONDS: Final = (0.05, 0.2, 1.0)
_REMOVAL_GOES_ON: Final = re.compile(r"removal of container \S+ is already in progress")


class DockerEngine:
    """The engine at `url` (`unix:///path`, `/path` or `tcp://host:port`).

    Nothing is asked before the first call, so the engine may come up, go away and come back.
    """

    def __init__(self, url: str, limits: Limits | None = None) -> None:
        self._client = EngineClient(url, limits or Limits())
        self._limits = self._client.limits
        self._data_root: DataRoot | None = None

    async def describe(self) -> EngineDescription:
        """See `port.Engine`."""
        version = await self._client.version()
        info = (await self._client.ask("GET", "/info", limit=self._limits.look)).required()
        self._found_at(text(mapping(info), "DockerRootDir"))
        return entries.read_description(version, info)

    async def inspect(self, name: str) -> LocalImage | None:
        """See `port.Engine`."""
        answer = await self._client.ask("GET", _image_path(name, "/json"), limit=self._limits.look)
        if _says_absent(answer):
            return None
        image = entries.read_image(answer.required(name))
        if image is None:
            raise not_understood(answer.text)
        return image

    async def images(self) -> list[LocalImage]:
        """See `port.Engine`."""
        answer = await self._client.ask("GET", "/images/json", limit=self._limits.list)
        images = entries.read_images(answer.required())
        if images is None:
            raise not_understood(answer.text)
        return images

    async def layer_sizes(self, image: LocalImage) -> tuple[int, ...] | None:
        """See `port.Engine`."""
        answer = await self._client.ask(
            "GET", _image_path(image.image_id, "/history"), limit=self._limits.look
        )
        if _says_absent(answer):
            return None
        return history.read_layer_sizes(answer.required(image.image_id), len(image.diff_ids))

    async def disk(self) -> DiskSpace | None:
        """See `port.Engine`. An engine reached over a network has its disk elsewhere."""
        if not self._client.is_local:
            return None
        if self._data_root is None:
            await self.describe()
        return await self._data_root.measure() if self._data_root else None

    async def containers(self) -> list[Container]:
        """See `port.Engine`."""
        answer = await self._client.ask(
            "GET", "/containers/json", query={"all": "1"}, limit=self._limits.containers
        )
        containers = container_entries.read_containers(answer.required())
        if containers is None:
            raise not_understood(answer.text)
        return containers

    @asynccontextmanager
    async def pull(
        self, name: str, credentials: RegistryCredentials | None
    ) -> AsyncIterator[AsyncIterator[LayerEvent]]:
        """See `port.Engine`. The engine is asked by the first step of the iterator."""
        async with aclosing(self._pull_events(name, credentials)) as events:
            yield events

    async def tag(self, name: str, reference: str) -> None:
        """See `port.Engine`."""
        target = Reference.parse(reference)
        answer = await self._client.ask(
            "POST",
            _image_path(name, "/tag"),
            query={"repo": target.name, "tag": target.tag or ""},
            limit=self._limits.look,
        )
        answer.required(name)

    async def untag(self, name: str) -> None:
        """See `port.Engine`."""
        answer = await self._client.ask(
            "DELETE",
            _image_path(name),
            query={"force": "false", "noprune": "false"},
            limit=self._limits.remove,
        )
        if not _says_absent(answer):
            answer.required(name)

    async def container(self, name: str) -> ContainerDetail | None:
        """See `port.Engine`."""
        answer = await self._inspect_container(name)
        if _says_no_container(answer):
            return None
        container = container_entries.read_container(answer.required(name))
        if container is None:
            raise not_understood(answer.text)
        return container

    async def create_container(self, spec: ContainerSpec) -> str:
        """See `port.Engine`. Podman would leave out the devices and say nothing: refused."""
        if spec.gpus and entries.is_podman(await self._client.version()):
            raise EngineError(
                Failure(FailureClass.UNSUPPORTED, "Podman gives no GPUs to containers made here")
            )
        answer = await self._client.ask(
            "POST",
            "/containers/create",
            query={"name": spec.name},
            body=create_body(spec),
            limit=self._limits.start,
        )
        if _says_absent(answer):
            raise ImageAbsent(classify(answer.text))
        if answer.status >= HTTPStatus.BAD_REQUEST and _NAME_TAKEN.search(answer.text):
            raise NameTaken(classify(answer.text))
        container_id = text(mapping(answer.required(spec.name)), "Id")
        if not container_id:
            raise not_understood(answer.text)
        return container_id

    async def start_container(self, name: str) -> None:
        """See `port.Engine`."""
        answer = await self._ask_of_container("POST", name, "/start", self._limits.start)
        answer.required(name)

    async def stop_container(self, name: str, grace_seconds: float) -> None:
        """See `port.Engine`. The engine knows whole seconds only; the grace is rounded up."""
        grace = math.ceil(grace_seconds)
        await self._unpause(name)
        answer = await self._ask_of_container(
            "POST", name, "/stop", grace + self._limits.kill, {"t": str(grace)}
        )
        if not _says_no_container(answer):
            answer.required(name)

    async def remove_container(self, name: str) -> None:
        """See `port.Engine`."""
        answer = await self._ask_of_container("DELETE", name, "", self._limits.remove, {"v": "1"})
        if not _says_no_container(answer) and not _REMOVAL_GOES_ON.search(answer.text):
            answer.required(name)

    @asynccontextmanager
    async def container_log(
        self, name: str, *, follow: bool
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """See `port.Engine`. Entering asks whether it is there, the iterator for the log."""
        answer = await self._inspect_container(name)
        frames = RawLog() if container_entries.has_terminal(answer.required(name)) else LogFrames()
        async with aclosing(self._log_pieces(name, frames, follow=follow)) as pieces:
            yield pieces

    async def changes(self) -> AsyncGenerator[Change, None]:
        """See `port.Engine`."""
        async with self._client.stream(
            "GET",
            "/events",
            JsonFrames(),
            query={"filters": events.FILTERS},
            limit=self._limits.look,
        ) as told:
            for change in Change:
                yield change
            async for event in told:
                if (changed := events.read_change(event)) is not None:
                    yield changed
        raise EngineError(
            Failure(FailureClass.ENGINE_ERROR, "the container engine ended its event stream")
        )

    async def close(self) -> None:
        """See `port.Engine`."""
        await self._client.close()

    def _found_at(self, path: str) -> None:
        if path and (self._data_root is None or self._data_root.path != path):
            self._data_root = DataRoot(path)

    async def _pull_events(
        self, name: str, credentials: RegistryCredentials | None
    ) -> AsyncGenerator[LayerEvent, None]:
        # the stream's first answer may take any time, so whether the engine lives is asked before
        await self._client.version()
        async with self._client.stream(
            "POST",
            "/images/create",
            JsonFrames(),
            query={"fromImage": name},
            headers=_registry_auth(name, credentials),
            limit=None,
            subject=name,
        ) as lines:
            async for line in lines:
                said = read_line(line)
                if isinstance(said, StreamFailure):
                    raise EngineError(classify(said.text, name))
                if said is not None:
                    yield said

    async def _log_pieces(
        self, name: str, frames: LogFrames | RawLog, *, follow: bool
    ) -> AsyncGenerator[bytes, None]:
        async with self._client.stream(
            "GET",
            _container_path(name, "/logs"),
            frames,
            query={"stdout": "1", "stderr": "1", "follow": str(int(follow))},
            # Podman sends the status with the first output, which may come at any time
            limit=None if follow else self._limits.look,
            pause=None if follow else self._limits.read,
            subject=name,
        ) as pieces:
            async for piece in pieces:
                yield piece

    async def _inspect_container(self, name: str) -> Answer:
        """Podman stumbles over a process that ends while it looks at it, for some milliseconds."""
        answer = await self._ask_of_container("GET", name, "/json", self._limits.look)
        for wait in _LOOK_AGAIN_SECONDS:
            if answer.status < HTTPStatus.BAD_REQUEST or not _PROCESS_ENDED.search(answer.text):
                break
            await asyncio.sleep(wait)
            answer = await self._ask_of_container("GET", name, "/json", self._limits.look)
        return answer

    async def _unpause(self, name: str) -> None:
        """Let a paused container go on: Podman cannot stop one. What comes of it shows the stop."""
        found = await self.container(name)
        if found is not None and found.state == "paused":
            await self._ask_of_container("POST", name, "/unpause", self._limits.start)

    async def _ask_of_container(
        self,
        method: str,
        name: str,
        what: str,
        limit: float,
        query: Mapping[str, str] | None = None,
    ) -> Answer:
        return await self._client.ask(method, _container_path(name, what), query=query, limit=limit)


def _image_path(name: str, what: str = "") -> str:
    return f"/images/{quote(name, safe='/:@')}{what}"


def _container_path(name: str, what: str) -> str:
    return f"/containers/{quote(name, safe='')}{what}"


def _says_absent(answer: Answer) -> bool:
    """A 404 may also mean that the engine does not know the endpoint."""
    return answer.status == HTTPStatus.NOT_FOUND and bool(_ABSENT.search(answer.text))


def _says_no_container(answer: Answer) -> bool:
    return answer.status == HTTPStatus.NOT_FOUND and bool(_CONTAINER_ABSENT.search(answer.text))


def _registry_auth(name: str, credentials: RegistryCredentials | None) -> dict[str, str]:
    """`X-Registry-Auth`: URL-safe base64 *with* padding; anything else is ignored silently.

    The containerd store uses the password only for the very registry `serveraddress` names, and
    for the Docker Hub when it names none.
    """
    if credentials is None:
        return {}
    shown = {"username": credentials.username, "password": credentials.password}
    registry = Reference.parse(name).registry
    if registry != HUB:
        shown["serveraddress"] = registry
    return {"X-Registry-Auth": base64.urlsafe_b64encode(json.dumps(shown).encode()).decode()}
