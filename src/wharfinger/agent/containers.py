"""The containers of this agent's kernels, as the engine shows them."""

import asyncio
from dataclasses import dataclass
from typing import ClassVar, Final

from wharfinger.agent.engine.port import Container, ContainerDetail, Engine
from wharfinger.agent.ours import SESSION, Ours, container_name
from wharfinger.contracts.rpc import KernelContainer
from wharfinger.contracts.wire import DETAIL_LIMIT

_STUCK: Final = frozenset({"dead", "removing"})
"""Its process is gone, and the engine cannot get rid of the rest."""
_SETTLED: Final = frozenset({"running", "paused", "exited"})
"""Nothing else of it changes while the state stays."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """What the look of this number showed. A container that is gone is remembered as None until
    no older look can bring it back. `state` is the listing's word, which may differ from
    inspect's."""

    look: int
    container: KernelContainer | None
    state: str = ""


class ContainerListing:
    """Knows every container of ours, from listings and from looks at single ones.

    Looks are numbered as they begin: what a later one showed stays, however late an earlier one is
    answered. `news` is set when something changed.
    """

    debounce_seconds: ClassVar[float] = 0.0
    relist_seconds: ClassVar[float] = 5.0
    again_seconds: ClassVar[float] = 0.15
    """dockerd lists a container as running for up to 40 ms after it told of its end."""

    def __init__(self, engine: Engine, ours: Ours, news: asyncio.Event) -> None:
        self.nudged = asyncio.Event()
        self._engine = engine
        self._ours = ours
        self._news = news
        self._seen: dict[str, _Seen] = {}
        self._looks = 0
        self._listed_for = ""

    @property
    def current(self) -> tuple[KernelContainer, ...] | None:
        """All of them, by kernel id. None before the first listing of this cluster's, and while the
        engine does not answer."""
        if not self._listed_for or self._listed_for != self._ours.cluster_id:
            return None
        containers = (seen.container for _, seen in sorted(self._seen.items()))
        return tuple(container for container in containers if container is not None)

    async def refresh(self) -> None:
        """List, and inspect what is not known well enough; waits until the cluster is known."""
        await self._ours.known()
        cluster_id, look = self._ours.cluster_id, self._begin()
        listed = {
            kernel_id: each
            for each in await self._engine.containers()
            if (kernel_id := self._ours.kernel_of(each.labels)) is not None
        }
        for kernel_id, each in listed.items():
            if not self._knows(kernel_id, each):
                await self._inspect(kernel_id, each.container_id, listed_as=each.state)
        for kernel_id in self._seen.keys() - listed.keys():
            self._keep(kernel_id, _Seen(look, None))
        self._seen = {
            kernel_id: seen
            for kernel_id, seen in self._seen.items()
            if seen.container is not None or seen.look > look
        }
        if self._listed_for != cluster_id:
            self._listed_for = cluster_id
            self._news.set()

    def lost(self) -> None:
        """The engine does not answer: nothing is known until the next listing."""
        if self._listed_for:
            self._news.set()
        self._listed_for = ""
        self._seen.clear()

    async def look(self, kernel_id: str) -> KernelContainer | None:
        """Ask for one kernel's container; None when there is none of ours."""
        seen = self._seen.get(kernel_id)
        if seen is not None and seen.container is not None:  # whatever its name is by now
            found = await self._inspect(kernel_id, seen.container.container_id)
            if found is not None:
                return found
        return await self._inspect(kernel_id, container_name(kernel_id))

    async def _inspect(
        self, kernel_id: str, name: str, *, listed_as: str | None = None
    ) -> KernelContainer | None:
        look = self._begin()
        detail = await self._engine.container(name)
        if detail is None or self._ours.kernel_of(detail.labels) != kernel_id:
            self._keep(kernel_id, _Seen(look, None))
            return None
        container = kernel_container(kernel_id, detail)
        self._keep(kernel_id, _Seen(look, container, listed_as or detail.state))
        return container

    def _begin(self) -> int:
        self._looks += 1
        return self._looks

    def _keep(self, kernel_id: str, seen: _Seen) -> None:
        known = self._seen.get(kernel_id)
        if known is not None and known.look > seen.look:
            return
        self._seen[kernel_id] = seen
        if seen.container != (known.container if known else None):
            self._news.set()

    def _knows(self, kernel_id: str, listed: Container) -> bool:
        seen = self._seen.get(kernel_id)
        return (
            seen is not None
            and seen.container is not None
            and seen.container.container_id == listed.container_id
            and seen.state == listed.state
            and seen.state in _SETTLED
        )


def kernel_container(kernel_id: str, detail: ContainerDetail) -> KernelContainer:
    """An inspected container, as the manager is told of it."""
    ran = detail.started_at is not None
    return KernelContainer(
        kernel_id=kernel_id,
        session_id=detail.labels.get(SESSION, ""),
        container_id=detail.container_id,
        image_id=detail.image_id,
        state=detail.state,
        ended=not detail.running and (ran or detail.state in _STUCK),
        exit_code=detail.exit_code,
        out_of_memory=detail.out_of_memory,
        started_at=detail.started_at,
        ended_at=detail.ended_at,
        problem=detail.problem[:DETAIL_LIMIT],
    )
