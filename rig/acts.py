"""What people do to a wharf, and what happens to it: each act is one coroutine, and may be refused.

An act draws all that it needs to choose from its own `Random`, and from what is open.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from random import Random
from typing import Final, TypeVar

from rig.wharf import AGENTS, MEM, Wharf
from wharfinger.agent.engine.port import EngineError
from wharfinger.domain.slots import Slots
from wharfinger.manager.sessions.requests import KernelRequest, SessionRequest

T = TypeVar("T")

Act = Callable[[Wharf, Random], Awaitable[object]]

MOST_SESSIONS: Final = 30
MOST_TASKS: Final = 10
"""Open ones; where there are as many, one of them is ended instead of another made."""

_SELECTORS: Final = ("*", "sgroup:east", "sgroup:west", *AGENTS)
_AWAY_SECONDS: Final = 4.0
"""How long at most somebody or something is away."""


async def create(wharf: Wharf, random: Random) -> None:
    """A session of one to three kernels."""
    if len(wharf.promises.seen.sessions) >= MOST_SESSIONS:
        await terminate(wharf, random)
        return
    owner = random.choice((*wharf.users, wharf.root))
    number = random.choice((1, 1, 1, 2, 3))
    kernels = [
        KernelRequest(_reference(wharf, random), Slots(random.choice((250, 500, 1000)), MEM // 64))
        for _ in range(number)
    ]
    await (await wharf.services()).sessions.create(SessionRequest(kernels), owner=owner)


async def terminate(wharf: Wharf, random: Random) -> None:
    if session_id := _one(random, wharf.promises.seen.sessions):
        await (await wharf.services()).sessions.terminate(session_id, who=wharf.root)


async def cancel(wharf: Wharf, random: Random) -> None:
    if session_id := _one(random, wharf.promises.seen.sessions):
        who, forced = random.choice((*wharf.users, wharf.root)), random.choice((True, False))
        await (await wharf.services()).sessions.cancel(session_id, who=who, forced=forced)


async def exit_by_itself(wharf: Wharf, random: Random) -> None:
    """The process of some container ends."""
    engine = wharf.engines[random.choice(list(AGENTS))]
    with suppress(EngineError):
        if container := _one(random, await engine.containers()):
            engine.end_container(container.name, random.choice((0, 1)))


async def preload(wharf: Wharf, random: Random) -> None:
    if len(wharf.promises.seen.tasks) >= MOST_TASKS:
        await cancel_task(wharf, random)
        return
    images = (await wharf.services()).images
    references = [_reference(wharf, random) for _ in range(random.choice((1, 1, 2)))]
    await images.preload(_selectors(random), references, who=wharf.root)


async def unload(wharf: Wharf, random: Random) -> None:
    if len(wharf.promises.seen.tasks) >= MOST_TASKS:
        await cancel_task(wharf, random)
        return
    images = (await wharf.services()).images
    references = [_reference(wharf, random) for _ in range(random.choice((1, 2, 3)))]
    await images.unload(_selectors(random), references, who=wharf.root)


async def cancel_task(wharf: Wharf, random: Random) -> None:
    if task_id := _one(random, wharf.promises.seen.tasks):
        await (await wharf.services()).tasks.cancel(task_id, by="user root")


async def rescan(wharf: Wharf, random: Random) -> None:
    catalogue = (await wharf.services()).catalogue
    registry, wait = random.choice((None, wharf.cargo.host)), random.choice((True, True, False))
    await catalogue.rescan(registry, wait=wait, who=wharf.root)


async def register(wharf: Wharf, random: Random) -> None:
    catalogue = (await wharf.services()).catalogue
    await catalogue.register(_reference(wharf, random), who=wharf.root)


async def forget(wharf: Wharf, random: Random) -> None:
    catalogue = (await wharf.services()).catalogue
    await catalogue.forget(random.choice(wharf.cargo.tagged), who=wharf.root)


async def protect(wharf: Wharf, random: Random) -> None:
    """One image is protected for a while, at most."""
    catalogue = (await wharf.services()).catalogue
    reference = random.choice(wharf.cargo.tagged)
    await catalogue.protect(reference, who=wharf.root)
    await asyncio.sleep(random.random())
    await (await wharf.services()).catalogue.unprotect(reference, who=wharf.root)


async def move_tag(wharf: Wharf, random: Random) -> None:
    """Somebody pushes: a tag means another image in its registry."""
    repository = random.choice(list(wharf.cargo.manifests))
    await asyncio.to_thread(wharf.cargo.move, repository, random.choice((0, 1)))


async def remove_by_hand(wharf: Wharf, random: Random) -> None:
    """Somebody takes the first names from an image, or all of them, beside the manager."""
    engine = wharf.engines[random.choice(list(AGENTS))]
    few = random.choice((1, None))
    with suppress(EngineError):
        if image := _one(random, await engine.images()):
            for name in (*image.tags, *image.digests)[:few]:
                await engine.untag_by_hand(name)


async def pull_by_hand(wharf: Wharf, random: Random) -> None:
    """Somebody pulls an image, and tags it, beside the manager."""
    engine = wharf.engines[random.choice(list(AGENTS))]
    pinned = random.choice(wharf.cargo.pinned)
    with suppress(EngineError):
        async with engine.pull(pinned, None) as events:
            async for _ in events:
                pass
        if random.choice((True, False)):
            await engine.tag(pinned, f"{pinned.partition('@')[0]}:v1")


async def engine_dies(wharf: Wharf, random: Random) -> None:
    """An engine answers nobody for a moment."""
    engine = wharf.engines[random.choice(list(AGENTS))]
    engine.die()
    await asyncio.sleep(random.random() * _AWAY_SECONDS)
    engine.revive()


async def agent_restarts(wharf: Wharf, random: Random) -> None:
    """An agent's process ends and comes back, maybe after it was given up."""
    agent_id = random.choice(list(AGENTS))
    await wharf.stop_agent(agent_id)
    await asyncio.sleep(random.random() * _AWAY_SECONDS)
    await wharf.start_agent(agent_id)


async def manager_restarts(wharf: Wharf, random: Random) -> None:
    """The manager is killed or, seldom, stopped by plan; another one goes on."""
    await wharf.stop_manager(killed=random.choice((True, True, True, False)))
    await wharf.start_manager()


WEIGHTS: Final[dict[Act, float]] = {
    create: 24,
    terminate: 9,
    cancel: 8,
    exit_by_itself: 10,
    preload: 8,
    unload: 15,
    cancel_task: 5,
    rescan: 1,
    register: 2,
    forget: 1,
    protect: 1,
    move_tag: 5,
    remove_by_hand: 8,
    pull_by_hand: 3,
}
"""How often each is done, of what people do one after another."""

FAULTS: Final[dict[Act, float]] = {engine_dies: 0.5, agent_restarts: 0.5, manager_restarts: 0.2}
"""What happens beside that; nothing waits for it."""


def _reference(wharf: Wharf, random: Random) -> str:
    cargo = wharf.cargo
    return random.choice(random.choice((cargo.tagged, cargo.tagged, cargo.tagged, cargo.pinned)))


def _selectors(random: Random) -> list[str]:
    return random.sample(_SELECTORS, random.choice((1, 1, 2)))


def _one(random: Random, things: Sequence[T]) -> T | None:
    """One of them, if there are any; which one does not change what is drawn next."""
    drawn = random.random()
    return things[int(drawn * len(things))] if things else None
