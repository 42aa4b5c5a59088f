"""The engine port on the Docker API: Docker Engine with either store, and Podman, which serves
the same API in a dialect of its own."""

import base64
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from http import HTTPStatus
from typing import Final
from urllib.parse import quote

from wharfinger.agent.engine import entries
from wharfinger.agent.engine.client import Answer, EngineClient, Limits, not_understood
from wharfinger.agent.engine.failure_texts import classify
from wharfinger.agent.engine.port import (
    Container,
    EngineDescription,
    EngineError,
    LayerEvent,
    LocalImage,
    RegistryCredentials,
)
from wharfinger.agent.engine.pull_lines import StreamFailure, read_line
from wharfinger.domain.failures import Failure, FailureClass
from wharfinger.domain.references import HUB, Reference

_ABSENT: Final = re.compile(
    r'no such image|image not known|reference does not exist|image ".*": not found', re.IGNORECASE
)
_IMAGE_EVENTS: Final = json.dumps({"type": ["image"]})


class DockerEngine:
    """The engine at `url` (`unix:///path`, `/path` or `tcp://host:port`).

    Nothing is asked before the first call, so the engine may come up, go away and come back.
    """

    def __init__(self, url: str, limits: Limits | None = None) -> None:
        self._client = EngineClient(url, limits or Limits())
        self._limits = self._client.limits

    async def describe(self) -> EngineDescription:
        """See `port.Engine`."""
        version = await self._client.version()
        info = await self._client.ask("GET", "/info", limit=self._limits.look)
        return entries.read_description(version, info.required())

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
        return entries.read_images(answer.required())

    async def containers(self) -> list[Container]:
        """See `port.Engine`."""
        answer = await self._client.ask(
            "GET", "/containers/json", query={"all": "1"}, limit=self._limits.list
        )
        return entries.read_containers(answer.required())

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

    async def changes(self) -> AsyncGenerator[None, None]:
        """See `port.Engine`."""
        async with self._client.stream(
            "GET", "/events", query={"filters": _IMAGE_EVENTS}, limit=self._limits.look
        ) as events:
            yield
            async for _ in events:
                yield
        raise EngineError(
            Failure(FailureClass.ENGINE_ERROR, "the container engine ended its event stream")
        )

    async def close(self) -> None:
        """See `port.Engine`."""
        await self._client.close()

    async def _pull_events(
        self, name: str, credentials: RegistryCredentials | None
    ) -> AsyncGenerator[LayerEvent, None]:
        # the stream's first answer may take any time, so whether the engine lives is asked before
        await self._client.version()
        async with self._client.stream(
            "POST",
            "/images/create",
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


def _image_path(name: str, what: str = "") -> str:
    return f"/images/{quote(name, safe='/:@')}{what}"


def _says_absent(answer: Answer) -> bool:
    """A 404 may also mean that the engine does not know the endpoint."""
    return answer.status == HTTPStatus.NOT_FOUND and bool(_ABSENT.search(answer.text))


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
