"""Which agent takes a kernel: one that holds its image, else one with few pulls, else a full one."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import NamedTuple, Self

from wharfinger.domain.platforms import Platform
from wharfinger.domain.slots import Slots
from wharfinger.manager.scheduler.index import FreeSlots, Place
from wharfinger.manager.scheduler.picture import Host


class Pool(NamedTuple):
    """Agents that are alike but for what they have free."""

    scaling_group: str
    platform: Platform

    @classmethod
    def of(cls, host: Host) -> Self:
        """The one an agent belongs to."""
        return cls(host.scaling_group, host.platform)


@dataclass(frozen=True, slots=True, eq=False)
class Need:
    """What a kernel needs: slots on an agent of these pools, but for the agents `without`.

    Kernels that need the same share one: rooms remember where they look for it.
    """

    slots: Slots
    root_digest: str
    pools: Sequence[Pool]
    without: AbstractSet[str] = frozenset()


@dataclass(frozen=True, slots=True)
class NoRoom:
    """No agent has room for this need; `held_for` is the session that holds one which has."""

    need: Need
    held_for: str | None


class Room:
    """What the agents that take sessions have left, and less with every kernel that is placed.

    It never gets more: what has no room while nothing is lent is not looked for again.
    """

    def __init__(
        self,
        free: Iterable[tuple[Host, Slots]],
        holders: Mapping[str, AbstractSet[str]],
        pulls: AbstractSet[tuple[str, str]],
    ) -> None:
        self._holders = holders
        self._pulls = set(pulls)
        pulled: dict[str, int] = defaultdict(int)
        for agent_id, _ in pulls:
            pulled[agent_id] += 1
        self._agents = {host.id: _Agent(host, slots, pulled[host.id]) for host, slots in free}
        members: dict[Pool, list[_Agent]] = defaultdict(list)
        for agent in self._agents.values():
            members[agent.pool].append(agent)
        self._members = dict(members)
        self._open = {pool: _View(agents) for pool, agents in members.items()}
        self._held: dict[Pool, _View] = {}
        self._holding: dict[tuple[Pool, str], _View] = {}
        self._views: dict[Need, tuple[Sequence[_View], Sequence[_View]]] = {}
        self._without_room: set[Need] = set()

    @classmethod
    def of(
        cls,
        hosts: Iterable[Host],
        holders: Mapping[str, AbstractSet[str]],
        pulls: AbstractSet[tuple[str, str]],
    ) -> Self:
        """As the agents are."""
        taking = [host for host in hosts if host.is_up and not host.cordoned]
        return cls([(host, host.capacity - host.occupied) for host in taking], holders, pulls)

    @classmethod
    def empty(cls, hosts: Iterable[Host]) -> Self:
        """As the agents would be without any session."""
        taking = [host for host in hosts if host.is_up and not host.cordoned]
        return cls([(host, host.capacity) for host in taking], {}, frozenset())

    @property
    def pools(self) -> Iterable[Pool]:
        """All that have an agent."""
        return self._members.keys()

    def place(self, needs: Sequence[Need], beside: Sequence[Need] = ()) -> tuple[str, ...] | NoRoom:
        """An agent for each of a session's needs, taken from what is left; or nothing is taken.
        What others need `beside` it is left for them."""
        hopeless = self._hopeless(needs)
        if hopeless is not None:
            return hopeless
        left, _ = self._take_all(beside)
        taken, failed = self._take_all(needs)
        self._give_back(left)
        if failed is not None:
            self._give_back(taken)
            self._note(failed.need)
            return failed
        return tuple([each.agent.id for each in taken])

    def has_for(self, need: Need) -> bool:
        """Whether there is room for this one; nothing is taken."""
        return self._find(need) is not None

    def admits(self, needs: Sequence[Need]) -> bool:
        """Whether there is room for all of them together; nothing is taken."""
        if self._hopeless(needs) is not None:
            return False
        if len(needs) == 1 and self.has_for(needs[0]):
            return True
        taken, failed = self._take_all(needs)
        self._give_back(taken)
        if failed is not None:
            self._note(failed.need)
        return failed is None

    def has_on(self, agent_id: str, slots: Slots) -> bool:
        """Whether this agent, held for nobody, has that much left."""
        agent = self._agents.get(agent_id)
        return agent is not None and agent.held_for is None and slots.fits(agent.free)

    def hold(self, need: Need, session_id: str) -> None:
        """Keep every agent that could ever take this, and that nobody holds yet, for a session:
        nothing else is placed there from now on."""
        for pool in need.pools:
            for agent in self._open[pool].agents() if pool in self._open else ():
                if need.slots.fits(agent.capacity) and agent.id not in need.without:
                    if pool not in self._held:
                        self._held[pool] = _View(self._members[pool], held=True)
                    agent.held_for = session_id
                    agent.touch()

    def _hopeless(self, needs: Sequence[Need]) -> NoRoom | None:
        """The first of them that is known to have no room."""
        for need in needs:
            if need in self._without_room:
                return NoRoom(need, self._held_for(need))
        return None

    def _note(self, failed: Need) -> None:
        """Keep that it has no room, if that is not for what was lent when it failed."""
        if self._find(failed) is None:
            self._without_room.add(failed)

    def _take_all(self, needs: Sequence[Need]) -> tuple[list["_Taken"], NoRoom | None]:
        taken: list[_Taken] = []
        for need in needs:
            agent = self._find(need)
            if agent is None:
                return taken, NoRoom(need, self._held_for(need))
            taken.append(self._take(agent, need))
        return taken, None

    def _find(self, need: Need) -> "_Agent | None":
        views = self._views.get(need)
        if views is None:
            views = self._views[need] = self._views_for(need)
        for preferred in views:
            agent = self._first(need, preferred)
            if agent is not None:
                return agent
        return None

    def _held_for(self, need: Need) -> str | None:
        agent = self._first(need, [self._held[pool] for pool in need.pools if pool in self._held])
        return agent.held_for if agent else None

    def _first(self, need: Need, views: Sequence["_View"]) -> "_Agent | None":
        places = [place for view in views if (place := view.first(need)) is not None]
        return self._agents[min(places).agent_id] if places else None

    def _views_for(self, need: Need) -> tuple[Sequence["_View"], Sequence["_View"]]:
        """Where to look: first among those that hold the image, then among all."""
        pools = [pool for pool in need.pools if pool in self._open]
        holding = pools if self._holders.get(need.root_digest) else ()
        return (
            [self._holding_view(pool, need.root_digest) for pool in holding],
            [self._open[pool] for pool in pools],
        )

    def _holding_view(self, pool: Pool, digest: str) -> "_View":
        view = self._holding.get((pool, digest))
        if view is None:
            holders = self._holders[digest]
            members = [agent for agent in self._members.get(pool, ()) if agent.id in holders]
            view = self._holding[pool, digest] = _View(members)
        return view

    def _take(self, agent: "_Agent", need: Need) -> "_Taken":
        agent.free -= need.slots
        pull = (agent.id, need.root_digest)
        is_held = agent.id in self._holders.get(need.root_digest, ())
        begins = not is_held and pull not in self._pulls
        if begins:
            self._pulls.add(pull)
            agent.pulls += 1
        agent.touch()
        return _Taken(agent, need.slots, pull if begins else None)

    def _give_back(self, taken: Iterable["_Taken"]) -> None:
        for agent, slots, pull in taken:
            agent.free += slots
            if pull is not None:
                self._pulls.remove(pull)
                agent.pulls -= 1
            agent.touch()


class _Agent:
    """One agent, and the views that show it."""

    __slots__ = ("capacity", "free", "held_for", "id", "pool", "pulls", "views")

    def __init__(self, host: Host, free: Slots, pulls: int) -> None:
        self.id = host.id
        self.capacity = host.capacity
        self.pool = Pool.of(host)
        self.free = free
        self.pulls = pulls
        self.held_for: str | None = None
        self.views: list[_View] = []

    @property
    def place(self) -> Place:
        return Place(self.pulls, self.free.gpu, self.free.cpu, self.free.mem, self.id)

    def touch(self) -> None:
        """It changed: every view looks at it again before it answers."""
        for view in self.views:
            view.changed.add(self)


class _Taken(NamedTuple):
    agent: _Agent
    slots: Slots
    pull: tuple[str, str] | None


class _View:
    """Some agents, those that are held or those that are not, in an index that catches up with
    what changed when it is asked: an agent that takes many kernels is moved once."""

    def __init__(self, agents: Sequence[_Agent], *, held: bool = False) -> None:
        self.changed: set[_Agent] = set()
        self._is_held = held
        self._shown = {
            agent: agent.place for agent in agents if (agent.held_for is not None) is held
        }
        self._index = FreeSlots(self._shown.values())
        for agent in agents:
            agent.views.append(self)

    def first(self, need: Need) -> Place | None:
        """The preferred one with room."""
        self._catch_up()
        return self._index.first(need.slots, need.without)

    def agents(self) -> list[_Agent]:
        """All it shows."""
        self._catch_up()
        return list(self._shown)

    def _catch_up(self) -> None:
        for agent in self.changed:
            shown = self._shown.pop(agent, None)
            if shown is not None:
                self._index.remove(shown)
            if (agent.held_for is not None) is self._is_held:
                place = self._shown[agent] = agent.place
                self._index.add(place)
        self.changed.clear()
