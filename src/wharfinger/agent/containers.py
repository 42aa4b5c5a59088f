"""The containers of this agent's kernels, as the engine shows them."""

import asyncio
from collections import defaultdict
from dataclasses import dataclass
from typing import ClassVar, Final

import structlog

from wharfinger.agent.engine.port import Container, ContainerDetail, Engine, EngineError
from wharfinger.agent.ours import SESSION, Ours
from wharfinger.contracts.rpc import KernelContainer
from wharfinger.contracts.wire import DETAIL_LIMIT

log = structlog.get_logger()

_STUCK: Final = frozenset({"dead", "removing"})
"""Its process is gone, and the engine cannot get rid of the rest."""
_SETTLED: Final = frozenset({"running", "paused", "exited"})
"""Nothing else of it changes while the state stays."""
_ENDED: Final = _STUCK | {"exited", "stopped"}
_NEVER_BEGAN: Final = frozenset({"created", "configured", "initialized"})


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

    There is one container per kernel, found by its label, whatever its name is by now. Where others
    made more of them, one that runs is shown; `doubles` are the rest.
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
        self._listed: dict[str, list[str]] = {}
        """The ids of each kernel's containers, by the last listing."""
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
        listed = await self._list()
        self._listed = {
            kernel_id: [each.container_id for each in containers]
            for kernel_id, containers in listed.items()
        }
        for kernel_id, (shown, *_) in listed.items():
            if not self._knows(kernel_id, shown):
                await self._learn(kernel_id, shown)
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
        """Ask for one kernel's container; None when there is none of ours. Raises `EngineError`."""
        seen = self._seen.get(kernel_id)
        if seen is not None and seen.container is not None:
            found = await self._inspect(kernel_id, seen.container.container_id)
            if found is not None:
                return found
        look = self._begin()
        for each in (await self._list()).get(kernel_id, ()):
            if (found := await self._inspect(kernel_id, each.container_id)) is not None:
                return found
        self._keep(kernel_id, _Seen(look, None))
        return None

    def doubles(self, container: KernelContainer) -> list[str]:
        """The ids of the other containers of its kernel, by the last listing."""
        listed = self._listed.get(container.kernel_id, ())
        return [each for each in listed if each != container.container_id]

    async def _list(self) -> dict[str, list[Container]]:
        """All of ours by kernel, those first that tell most of it."""
        listed: dict[str, list[Container]] = defaultdict(list)
        for each in sorted(await self._engine.containers(), key=_least_telling):
            if (kernel_id := self._ours.kernel_of(each.labels)) is not None:
                listed[kernel_id].append(each)
        return listed

    async def _learn(self, kernel_id: str, listed: Container) -> None:
        """Inspect it. Where the engine answers, but not about this one, the listing is believed."""
        look = self._begin()
        try:
            await self._inspect(kernel_id, listed.container_id, listed_as=listed.state)
        except EngineError as error:
            await self._engine.describe()
            log.warning("a container cannot be inspected", kernel=kernel_id, problem=error.message)
            self._keep(kernel_id, _Seen(look, self._untold(kernel_id, listed, error)))

    def _untold(self, kernel_id: str, listed: Container, error: EngineError) -> KernelContainer:
        """What was seen of it before, in its present state."""
        seen = self._seen.get(kernel_id)
        known = seen.container if seen else None
        if known is None or known.container_id != listed.container_id:
            known = KernelContainer(
                kernel_id=kernel_id,
                session_id=listed.labels.get(SESSION, ""),
                container_id=listed.container_id,
                image_id=listed.image_id,
                state=listed.state,
            )
        state = {"state": listed.state, "ended": known.ended or listed.state in _ENDED}
        return known.model_copy(update=state | {"problem": error.message[:DETAIL_LIMIT]})

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


def _least_telling(container: Container) -> tuple[bool, bool, str]:
    """Sorts what runs before what ended, and that before what never began."""
    state = container.state
    return state in _NEVER_BEGAN, state in _ENDED, container.container_id


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
