"""The promises about preparations, kernels and slots, looked for in a SQLite database from outside.

Nothing here asks the product's own queries: what is read is the tables, and the transition log,
whose ids tell what came before what.
"""

import json
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from wharfinger.agent.engine.port import LocalImage
from wharfinger.domain.states import ALL_TRANSITIONS, KERNEL_TRANSITIONS

_ENDS: Final = {
    (machine.name, str(state)) for machine in ALL_TRANSITIONS for state in machine.terminal
}
_OCCUPYING: Final = ("SCHEDULED", "PREPARING", "PULLING", "PREPARED", "CREATING", "RUNNING")
_HOLDING: Final = (*_OCCUPYING, "TERMINATING")
"""A kernel in one of these has its agent, and slots there."""
_ADMITTED: Final = ("CREATING", "RUNNING", "TERMINATING")
"""A kernel in one of these was let start within its user's quota."""
_HELD_BACK: Final = "pending-image-preparation"
_OPEN: Final = tuple(map(str, KERNEL_TRANSITIONS.open))


class PromiseBroken(AssertionError):
    """What was promised is not so."""


class Quota(NamedTuple):
    """What one user may occupy at most."""

    cpu: int
    sessions: int


class _Kernel(NamedTuple):
    id: str
    session_id: str
    owner_id: str
    status: str
    status_info: str
    agent_id: str | None
    reference: str
    root_digest: str | None
    image_id: str | None
    cpu: int
    mem: int


class _Preparation(NamedTuple):
    item_id: str
    task_id: str
    agent_id: str
    kind: str
    reference: str
    root_digests: str
    image_id: str | None

    def meets(self, kernel: _Kernel) -> bool:
        return self.agent_id == kernel.agent_id and (
            self.reference == kernel.reference
            or kernel.root_digest in json.loads(self.root_digests)
            or (self.image_id is not None and self.image_id == kernel.image_id)
        )


@dataclass
class Seen:
    """What was open when it was last looked."""

    sessions: list[str]
    tasks: list[str]
    preparations: int


class Promises:
    """Looks at one database, again and again. `quotas` are by user id; who has none is not held
    to one. Leave it by `close`."""

    def __init__(self, database: Path, quotas: Mapping[str, Quota]) -> None:
        self.broken: list[str] = []
        """What was noted by others than `check`; the next check raises it."""
        self.seen = Seen([], [], 0)
        self.checks = 0
        self.met: Counter[str] = Counter()
        """How often a state was entered, by `entity to`: what an exercise has reached."""
        self._quotas = quotas
        self._conn = sqlite3.connect(f"file:{database}?mode=ro", uri=True, isolation_level=None)
        self._read_to = 0
        self._states: dict[tuple[str, str], str] = {}
        self._bound_at: dict[str, int] = {}
        """By kernel: where in the log it was bound last."""
        self._held_back: set[str] = set()
        """Kernels that waited for a preparation when it was last looked."""
        self._running_since: dict[str, int] = {}
        """By item that runs: where in the log it began to."""

    def close(self) -> None:
        """Look no more."""
        self._conn.close()

    def check(self) -> Seen:
        """Look at everything once; raises `PromiseBroken` with all that is wrong."""
        self.checks += 1
        with self._snapshot():
            wrong = [*self._follow_log(), *self._check_now()]
        wrong += self.broken
        if wrong:
            raise PromiseBroken("\n".join(wrong))
        return self.seen

    def check_untag(self, agent_id: str, name: str, image: LocalImage, *, used: bool) -> None:
        """An engine is asked now to take this name from an image; what is wrong is noted."""
        with self._snapshot():
            kernels = [each for each in self._kernels(_HOLDING) if each.agent_id == agent_id]
            unloads = [
                each
                for each in self._preparations()
                if each.agent_id == agent_id and each.kind == "unload"
            ]
        taking = f"promise 4: {name} is taken from {image} on {agent_id}"
        digests = {each.rpartition("@")[2] for each in image.digests}
        self.broken += [
            f"{taking} under {kernel}"
            for kernel in kernels
            if kernel.root_digest in digests or kernel.image_id == image.image_id
        ]
        if used:
            self.broken.append(f"{taking} under a container")
        if not any(each.image_id == image.image_id for each in unloads):
            self.broken.append(f"{taking} without its preparation; there are {unloads}")

    @contextmanager
    def _snapshot(self) -> Iterator[None]:
        self._conn.execute("BEGIN")
        try:
            yield
        finally:
            self._conn.execute("COMMIT")

    def _follow_log(self) -> Iterator[str]:
        """What is new in the log: nothing has two ends, nor goes on after one."""
        rows = self._conn.execute(
            'SELECT id, entity, entity_id, "from", "to" FROM transitions WHERE id > ? ORDER BY id',
            (self._read_to,),
        )
        for number, entity, entity_id, source, target in rows:
            self._read_to = number
            self.met[f"{entity} {target}"] += 1
            before = self._states.get((entity, entity_id))
            if (entity, before) in _ENDS:
                yield f"promise 2: {entity} {entity_id} is {target} after its end as {before}"
            elif before != source:
                yield f"{entity} {entity_id} is {target} from {source}, but was {before}"
            self._states[entity, entity_id] = target
            if entity == "kernel" and target == "SCHEDULED":
                self._bound_at[entity_id] = number
            elif entity == "item" and target == "running":
                self._running_since[entity_id] = number
            elif entity == "item":
                self._running_since.pop(entity_id, None)
            elif entity == "task" and (entity, target) in _ENDS:
                self.seen.tasks.remove(entity_id)
            elif entity == "task" and source is None:
                self.seen.tasks.append(entity_id)

    def _check_now(self) -> Iterator[str]:
        kernels = self._kernels(_OPEN)
        self.seen.sessions = list(dict.fromkeys(kernel.session_id for kernel in kernels))
        held_back = {each.id for each in kernels if each.status_info == _HELD_BACK}
        self.met["kernel held back"] += len(held_back - self._held_back)
        self._held_back = held_back
        for kernel in kernels:
            if (logged := self._states.get(("kernel", kernel.id))) != kernel.status:
                yield f"{kernel} is {logged} in the log"
        holding = [kernel for kernel in kernels if kernel.status in _HOLDING]
        yield from self._check_preparations(holding)
        yield from self._check_slots(holding)
        yield from self._check_quotas(holding)

    def _check_preparations(self, holding: list[_Kernel]) -> Iterator[str]:
        preparations = self._preparations()
        self.seen.preparations = len(preparations)
        prepared = {each.item_id for each in preparations}
        for item_id in prepared - self._running_since.keys():
            yield f"promise 5: item {item_id} has a preparation, and does not run"
        for item_id in self._running_since.keys() - prepared:
            yield f"promise 5: item {item_id} runs without its preparation"
        for each in preparations:
            if ("task", self._states.get(("task", each.task_id))) in _ENDS:
                yield f"promise 5: {each} is of a task that has ended"
            since = self._running_since.get(each.item_id, 0)
            for kernel in holding:
                bound_at = self._bound_at[kernel.id]
                if each.meets(kernel) and (each.kind == "unload" or bound_at > since):
                    yield f"promise 5: {kernel} (bound at {bound_at}) meets {each} (from {since})"

    def _check_slots(self, holding: list[_Kernel]) -> Iterator[str]:
        taken: dict[str | None, list[int]] = defaultdict(lambda: [0, 0])
        for kernel in holding:
            taken[kernel.agent_id][0] += kernel.cpu
            taken[kernel.agent_id][1] += kernel.mem
        for agent_id, slots in self._conn.execute("SELECT id, slots FROM agents"):
            room = json.loads(slots)
            cpu, mem = taken.pop(agent_id, (0, 0))
            if cpu > round(room["cpu"] * 1000) or mem > room["mem"]:
                yield f"slots: {agent_id} has {room}, and {cpu} and {mem} are taken"
        if taken:
            yield f"slots are taken on agents that are not there: {dict(taken)}"

    def _check_quotas(self, holding: list[_Kernel]) -> Iterator[str]:
        for user_id, quota in self._quotas.items():
            own = [kernel for kernel in holding if kernel.owner_id == user_id]
            cpu = sum(kernel.cpu for kernel in own if kernel.status in _ADMITTED)
            sessions = len({kernel.session_id for kernel in own})
            if cpu > quota.cpu or sessions > quota.sessions:
                yield f"quota: {user_id} has {quota}, and occupies {cpu} with {sessions} sessions"

    def _preparations(self) -> list[_Preparation]:
        rows = self._conn.execute(
            "SELECT item_id, task_id, agent_id, kind, reference, root_digests, image_id "
            "FROM preparations"
        )
        return list(map(_Preparation._make, rows))

    def _kernels(self, statuses: tuple[str, ...]) -> list[_Kernel]:
        rows = self._conn.execute(
            "SELECT id, session_id, owner_id, status, status_info, agent_id, reference, root_digest, "
            f"image_id, cpu, mem FROM kernels WHERE status IN ({', '.join('?' * len(statuses))}) ORDER BY id",
            statuses,
        )
        return list(map(_Kernel._make, rows))
