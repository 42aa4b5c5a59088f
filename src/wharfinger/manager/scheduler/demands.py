"""What kernels ask of the agents: worked out once for all that ask for the same."""

from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property
from typing import TypeAlias

from wharfinger.domain.gate import ImageKeys
from wharfinger.domain.slots import Slots
from wharfinger.domain.suitability import may_use, suits
from wharfinger.manager.gate.preparations import Preparation
from wharfinger.manager.scheduler import predicates
from wharfinger.manager.scheduler.picture import Account, Picture, WaitingKernel, WaitingSession
from wharfinger.manager.scheduler.placement import Need, Pool, Room
from wharfinger.manager.scheduler.predicates import Ask, Cause, Hold


class Demand:
    """What one kernel asks for, and what that means among the agents of a picture.

    `need` is what it needs now, `later` what it needs once no preparation keeps it from agents:
    the same, where none does."""

    def __init__(
        self, picture: Picture, ask: Ask, need: Need, later: Need, *, suitable: bool
    ) -> None:
        self.ask = ask
        self.need = need
        self.later = later
        self._picture = picture
        self._suitable = suitable

    @cached_property
    def preparing(self) -> Mapping[str, Preparation]:
        """The preparations of its image on agents that could take it if they were empty, the one
        nearest its end first."""
        if self.need is self.later:
            return {}
        hosts = {host.id: host for host in self._picture.hosts}
        found = [
            each
            for agent_id, each in predicates.preparing(self._picture, self.ask).items()
            if predicates.cause_against(self._picture, hosts[agent_id], self.ask) is None
        ]
        return {each.agent_id: each for each in sorted(found, key=predicates.left)}

    @cached_property
    def unsuitable(self) -> Hold | None:
        """Said when no agent could ever take the kernel."""
        if self._suitable:
            return None
        return predicates.no_suitable_agent(self._picture, self.ask, self._causes)

    @property
    def candidates(self) -> int:
        """How many agents could take the kernel, if they were empty."""
        return self._causes[None]

    @property
    def ease(self) -> tuple[int, int, int, int]:
        """Smaller for a kernel that is harder to place: few agents could, or it asks for much."""
        slots = self.ask.slots
        return self.candidates, -slots.gpu, -slots.cpu, -slots.mem

    @cached_property
    def _causes(self) -> Counter[Cause | None]:
        return predicates.count_causes(self._picture, self.ask)


_Key: TypeAlias = tuple[Slots, str, str | None, str | None, frozenset[str] | None]


def hardest_first(demands: Sequence[Demand]) -> list[Demand]:
    """In the order in which they are placed: who is hard to place must not find its agent taken by
    a sibling."""
    return sorted(demands, key=lambda demand: demand.ease)


class Demands:
    """The demands of a round."""

    def __init__(self, picture: Picture) -> None:
        self._empty = Room.empty(picture.hosts)
        self._picture = picture
        self._known: dict[_Key, Demand] = {}
        self._taken_out: dict[ImageKeys, AbstractSet[str]] = {}
        self._pools: dict[tuple[str, str | None, frozenset[str] | None], Sequence[Pool]] = {}

    def of(self, session: WaitingSession, account: Account, kernel: WaitingKernel) -> Demand:
        """What a kernel asks for whose reference is resolved."""
        key = (
            kernel.slots,
            kernel.reference,
            kernel.root_digest,
            session.scaling_group,
            account.scaling_groups,
        )
        demand = self._known.get(key)
        if demand is None:
            assert kernel.root_digest is not None  # else it rests
            ask = Ask(
                kernel.slots,
                kernel.reference,
                kernel.root_digest,
                session.scaling_group,
                account.scaling_groups,
            )
            demand = self._known[key] = self._work_out(ask)
        return demand

    def could_go_together(self, demands: Sequence[Demand]) -> bool:
        """Whether the agents could take all of them at once, if they were empty."""
        return self._empty.admits([demand.later for demand in hardest_first(demands)])

    def _work_out(self, ask: Ask) -> Demand:
        pools = self._pools_for(ask)
        avoided = predicates.avoided(self._picture, ask.root_digest).keys()
        taken_out = self._taken_out.get(ask.keys)
        if taken_out is None:
            taken_out = self._taken_out[ask.keys] = predicates.taken_out(self._picture, ask)
        later = need = Need(ask.slots, ask.root_digest, pools, avoided)
        if taken_out != avoided:
            need = Need(ask.slots, ask.root_digest, pools, taken_out)
        return Demand(self._picture, ask, need, later, suitable=self._empty.has_for(later))

    def _pools_for(self, ask: Ask) -> Sequence[Pool]:
        key = (ask.root_digest, ask.session_group, ask.user_groups)
        pools = self._pools.get(key)
        if pools is None:
            images = self._picture.platforms.get(ask.root_digest)
            pools = self._pools[key] = [
                pool
                for pool in self._empty.pools
                if may_use(pool.scaling_group, ask.session_group, ask.user_groups)
                and suits(pool.platform, images)
            ]
        return pools
