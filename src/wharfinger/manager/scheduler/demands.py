"""What kernels ask of the agents: worked out once for all that ask for the same."""

from collections import Counter
from collections.abc import Sequence
from functools import cached_property

from wharfinger.domain.slots import Slots
from wharfinger.manager.scheduler import predicates
from wharfinger.manager.scheduler.picture import Account, Picture, WaitingKernel, WaitingSession
from wharfinger.manager.scheduler.placement import Need, Pool, Room
from wharfinger.manager.scheduler.predicates import Ask, Cause, Hold


class Demand:
    """What one kernel asks for, and what that means among the agents of a picture."""

    def __init__(self, picture: Picture, ask: Ask, need: Need, *, suitable: bool) -> None:
        self.ask = ask
        self.need = need
        self._picture = picture
        self._suitable = suitable

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


class Demands:
    """The demands of a round."""

    def __init__(self, picture: Picture) -> None:
        self._empty = Room.empty(picture.hosts)
        self._picture = picture
        self._known: dict[tuple[Slots, str | None, str | None, frozenset[str] | None], Demand] = {}
        self._pools: dict[tuple[str, str | None, frozenset[str] | None], Sequence[Pool]] = {}

    def of(self, session: WaitingSession, account: Account, kernel: WaitingKernel) -> Demand:
        """What a kernel asks for whose reference is resolved."""
        key = (kernel.slots, kernel.root_digest, session.scaling_group, account.scaling_groups)
        demand = self._known.get(key)
        if demand is None:
            assert kernel.root_digest is not None  # else it rests
            ask = Ask(
                kernel.slots, kernel.root_digest, session.scaling_group, account.scaling_groups
            )
            demand = self._known[key] = self._work_out(ask)
        return demand

    def could_go_together(self, demands: Sequence[Demand]) -> bool:
        """Whether the agents could take all of them at once, if they were empty."""
        hardest_first = sorted(demands, key=lambda demand: demand.ease)
        return self._empty.admits([demand.need for demand in hardest_first])

    def _work_out(self, ask: Ask) -> Demand:
        without = predicates.taken_out(self._picture, ask.root_digest)
        need = Need(ask.slots, ask.root_digest, self._pools_for(ask), without)
        return Demand(self._picture, ask, need, suitable=self._empty.has_for(need))

    def _pools_for(self, ask: Ask) -> Sequence[Pool]:
        key = (ask.root_digest, ask.session_group, ask.user_groups)
        pools = self._pools.get(key)
        if pools is None:
            images = self._picture.platforms.get(ask.root_digest)
            pools = self._pools[key] = [
                pool
                for pool in self._empty.pools
                if predicates.may_use(pool.scaling_group, ask.session_group, ask.user_groups)
                and predicates.suits(pool.platform, images)
            ]
        return pools
