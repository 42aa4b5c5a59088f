"""An engine that runs containers in memory, and misbehaves in named ways at named calls."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from rig.misbehaving_engine import MisbehavingEngine
from wharfinger.agent.engine.port import (
    Change,
    Container,
    ContainerDetail,
    ContainerSpec,
    EngineDescription,
    EngineError,
    ImageAbsent,
    LocalImage,
    NameTaken,
    Unanswered,
)
from wharfinger.domain.failures import Failure, FailureClass
from wharfinger.domain.platforms import Platform

IMAGE_ID = "sha256:" + "1" * 64
STARTED_AT = 1000.0
ENDED_AT = 2000.0


@dataclass
class ContainersInMemory(MisbehavingEngine):
    """Misbehaves by the names of the port's calls.

    `held_up`: the call waits, before it does anything, until its event is set. `refused`: it raises
    this and does nothing. `unanswered`: it does what it was asked, and gives no answer.
    """

    held_up: dict[str, asyncio.Event] = field(default_factory=dict)
    refused: dict[str, EngineError] = field(default_factory=dict)
    unanswered: set[str] = field(default_factory=set)
    unreadable: dict[str, EngineError] = field(default_factory=dict)
    """What is raised by an inspect of the containers with these ids."""
    asked_for: list[str] = field(default_factory=list)
    """The names of the calls about containers, in order."""
    made: dict[str, ContainerDetail] = field(default_factory=dict)
    """By name."""
    specs: dict[str, ContainerSpec] = field(default_factory=dict)
    """What was created, by name."""
    log: bytes = b""
    _ids: "itertools.count[int]" = field(default_factory=itertools.count)
    _told: asyncio.Condition = field(default_factory=asyncio.Condition)
    _changes: "asyncio.Queue[Change]" = field(default_factory=asyncio.Queue)

    def hold_image(self) -> None:
        """Have the image `IMAGE_ID` from now on."""
        self.held[IMAGE_ID] = LocalImage(IMAGE_ID, (), (), 1, Platform("linux", "amd64"))

    def put(self, name: str, **facts: Any) -> None:
        """Change a container by hand, or make one, and tell."""
        known = self.made.get(name) or ContainerDetail(
            container_id=f"id{next(self._ids)}",
            name=name,
            image_id=IMAGE_ID,
            state="created",
            labels={},
            running=False,
            exit_code=None,
            out_of_memory=False,
            started_at=None,
            ended_at=None,
        )
        self.made[name] = replace(known, **facts)
        self._changes.put_nowait(Change.CONTAINERS)

    def run(self, name: str) -> None:
        """Its process runs from now on."""
        self.put(name, state="running", running=True, started_at=STARTED_AT)

    def exit(self, name: str, code: int = 0) -> None:
        """Its process ends by itself."""
        self.put(name, state="exited", running=False, exit_code=code, ended_at=ENDED_AT)

    def vanish(self, name: str) -> None:
        """Somebody removes it."""
        del self.made[name]
        self._changes.put_nowait(Change.CONTAINERS)

    async def until_asked(self, call: str, times: int = 1) -> None:
        """Return when this was asked so many times."""
        async with asyncio.timeout(5), self._told:
            await self._told.wait_for(lambda: self.asked_for.count(call) >= times)

    async def describe(self) -> EngineDescription:
        if "describe" in self.refused:
            raise self.refused["describe"]
        return await super().describe()

    async def containers(self) -> list[Container]:
        # as it was when it was asked, however late it answers
        listed = [
            Container(each.container_id, each.name, each.image_id, each.state, each.labels)
            for each in self.made.values()
        ]
        await self._asked("containers")
        return listed

    async def container(self, name: str) -> ContainerDetail | None:
        await self._asked("container")
        found = self._find(name)
        if found is not None and found.container_id in self.unreadable:
            raise self.unreadable[found.container_id]
        await self._answers("container")
        return found

    async def create_container(self, spec: ContainerSpec) -> str:
        await self._asked("create_container")
        if spec.name in self.made:
            raise NameTaken(Failure(FailureClass.ENGINE_ERROR, "the name is taken"))
        if spec.image_id not in self.held:
            raise ImageAbsent(Failure(FailureClass.NOT_FOUND, "no such image"))
        self.put(spec.name, image_id=spec.image_id, labels=spec.labels)
        self.specs[spec.name] = spec
        await self._answers("create_container")
        return self.made[spec.name].container_id

    async def start_container(self, name: str) -> None:
        await self._asked("start_container")
        found = self._find(name)
        assert found is not None, name
        if not found.running:
            self.run(found.name)
        await self._answers("start_container")

    async def stop_container(self, name: str, grace_seconds: float) -> None:
        await self._asked("stop_container")
        assert grace_seconds >= 0
        found = self._find(name)
        if found is not None and found.running:
            self.exit(found.name, 143)
        await self._answers("stop_container")

    async def remove_container(self, name: str) -> None:
        await self._asked("remove_container")
        found = self._find(name)
        if found is not None and found.running:
            raise EngineError(Failure(FailureClass.IN_USE, "it runs"))
        if found is not None:
            self.vanish(found.name)
        await self._answers("remove_container")

    @asynccontextmanager
    async def container_log(
        self, name: str, *, follow: bool
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        assert self._find(name) is not None
        yield self._pieces(follow)

    async def changes(self) -> AsyncIterator[Change]:
        for change in Change:
            yield change
        while True:
            yield await self._changes.get()

    async def _pieces(self, follow: bool) -> AsyncIterator[bytes]:
        await self._asked("container_log")
        for start in range(0, len(self.log), 7):
            yield self.log[start : start + 7]
        if follow:
            await asyncio.Event().wait()

    async def _asked(self, call: str) -> None:
        async with self._told:
            self.asked_for.append(call)
            self._told.notify_all()
        if call in self.held_up:
            await self.held_up[call].wait()
        if call in self.refused:
            raise self.refused[call]

    async def _answers(self, call: str) -> None:
        if call in self.unanswered:
            raise Unanswered(Failure(FailureClass.ENGINE_ERROR, "the engine went silent"))

    def _find(self, name: str) -> ContainerDetail | None:
        return self.made.get(name) or next(
            (each for each in self.made.values() if each.container_id == name), None
        )
