"""Agents found by what they have free, without looking at each of them."""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain
from typing import Final, NamedTuple

from wharfinger.domain.slots import Slots

_BLOCK: Final = 32
"""Neighbours in a block, when it is made; at twice as many it is split."""


class Place(NamedTuple):
    """An agent with what it has free. Places are ordered as they are preferred: fewer pulls first,
    then less left over, graphics processors before processors before memory; ids break ties."""

    pulls: int
    gpu: int
    cpu: int
    mem: int
    agent_id: str


class FreeSlots:
    """Places in their order, in blocks of neighbours.

    Of each slot, a block knows how much any of its places has free at most, so that a search passes
    over blocks where nobody fits. Places that leave may leave it too high: a search that finds
    nobody puts it right.
    """

    def __init__(self, places: Iterable[Place]) -> None:
        ordered = sorted(places)
        self._blocks = [
            _Block(ordered[start : start + _BLOCK]) for start in range(0, len(ordered), _BLOCK)
        ]

    def __iter__(self) -> Iterator[Place]:
        return chain.from_iterable(block.places for block in self._blocks)

    def first(self, asked: Slots, without: AbstractSet[str] = frozenset()) -> Place | None:
        """The place preferred among those with this much free, but for the agents `without`."""
        cpu, mem, gpu = asked.cpu, asked.mem, asked.gpu
        for block in self._blocks:
            if block.cpu < cpu or block.mem < mem or block.gpu < gpu:
                continue
            for place in block.places:
                _, free_gpu, free_cpu, free_mem, agent_id = place
                fits = free_cpu >= cpu and free_mem >= mem and free_gpu >= gpu
                if fits and agent_id not in without:
                    return place
            block.measure()
        return None

    def add(self, place: Place) -> None:
        """Put a new place where it belongs."""
        if not self._blocks:
            self._blocks.append(_Block([place]))
            return
        number = min(self._number(place), len(self._blocks) - 1)
        block = self._blocks[number]
        insort(block.places, place)
        if len(block.places) < 2 * _BLOCK:
            block.note(place)
        else:
            halves = block.places[:_BLOCK], block.places[_BLOCK:]
            self._blocks[number : number + 1] = map(_Block, halves)

    def remove(self, place: Place) -> None:
        """Take a place out that is in."""
        number = self._number(place)
        block = self._blocks[number]
        del block.places[bisect_left(block.places, place)]
        if not block.places:
            del self._blocks[number]

    def _number(self, place: Place) -> int:
        """Of the first block that ends with this place or a later one."""
        return bisect_left(self._blocks, place, key=lambda block: block.places[-1])


class _Block:
    __slots__ = ("cpu", "gpu", "mem", "places")

    def __init__(self, places: Sequence[Place]) -> None:
        self.places = list(places)
        self.measure()

    def measure(self) -> None:
        """Look how much is free at most."""
        _, gpus, cpus, mems, _ = zip(*self.places, strict=True)
        self.gpu: int = max(gpus)
        self.cpu: int = max(cpus)
        self.mem: int = max(mems)

    def note(self, place: Place) -> None:
        """One more place."""
        self.gpu = max(self.gpu, place.gpu)
        self.cpu = max(self.cpu, place.cpu)
        self.mem = max(self.mem, place.mem)
