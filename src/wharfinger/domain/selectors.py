"""Which agents an operation means: `*`, `sgroup:<scaling group>` or an agent's id."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from wharfinger.domain.errors import NoAgents, UnknownSelector

EVERY = "*"
GROUP_PREFIX = "sgroup:"


class Selectable(Protocol):
    """What a selector looks at."""

    @property
    def id(self) -> str:
        """The agent's id."""

    @property
    def scaling_group(self) -> str:
        """The scaling group it belongs to."""


A = TypeVar("A", bound=Selectable)


@dataclass(frozen=True, slots=True)
class _Known:
    agents: frozenset[str]
    groups: frozenset[str]

    def allows(self, selector: str) -> bool:
        if selector == EVERY:
            return True
        if selector.startswith(GROUP_PREFIX):
            return selector.removeprefix(GROUP_PREFIX) in self.groups
        return selector in self.agents


def select(selectors: Sequence[str], agents: Iterable[A]) -> list[A]:
    """The agents the selectors name, each once, by ascending id.

    Raises `UnknownSelector` naming what is unknown and what is known, `NoAgents` for an empty set.
    """
    candidates = sorted(agents, key=lambda agent: agent.id)
    known = _Known(
        frozenset(agent.id for agent in candidates),
        frozenset(agent.scaling_group for agent in candidates),
    )
    unknown = [selector for selector in selectors if not known.allows(selector)]
    if unknown:
        names = [EVERY, *(GROUP_PREFIX + group for group in sorted(known.groups))]
        names += sorted(known.agents)
        raise UnknownSelector(
            f"unknown selector {', '.join(map(repr, unknown))}; known here: {', '.join(names)}",
            unknown=unknown,
            known=names,
        )
    wanted = set(selectors)
    chosen = [
        agent
        for agent in candidates
        if EVERY in wanted or agent.id in wanted or GROUP_PREFIX + agent.scaling_group in wanted
    ]
    if not chosen:
        raise NoAgents("the selectors match no agent", selectors=list(selectors))
    return chosen
