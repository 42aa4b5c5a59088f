"""What is where: the agents' listings, the catalogue and what is under way, in one view."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, select

from wharfinger.domain.states import ItemStatus
from wharfinger.manager.storage import tables

PRELOAD = "preload"
UNLOAD = "unload"
"""The names of the two kinds of task, and of their functions."""


@dataclass(frozen=True, slots=True)
class ImageView:
    """One reference at one root digest, and the agents that hold it or are about to.

    `size` is in bytes: compressed as the registry has it where that is known, else as an engine
    counts. `agents` are (agent id, `present` | `pulling` | `removing`).
    """

    reference: str
    root_digest: str | None
    size: int
    agents: Sequence[tuple[str, str]]

    @property
    def key(self) -> str:
        """The text this row is sorted and continued by."""
        return f"{self.reference} {self.root_digest or ''}"


def list_images(conn: Connection, reference: str | None, agent_id: str | None) -> list[ImageView]:
    """All images, sorted by `key`; `reference` narrows by substring."""
    held, known = tables.agent_images, tables.images
    found: dict[tuple[str, str | None], dict[str, str]] = {}
    sizes: dict[tuple[str, str | None], int] = {}
    for row in conn.execute(select(known)):
        found[row.reference, row.root_digest] = {}
        sizes[row.reference, row.root_digest] = row.size
    for row in conn.execute(select(held).order_by(held.c.agent_id)):
        key = (row.reference, row.root_digest)
        if key not in found:
            sizes[key] = max(sizes.get(key, 0), row.size)
        found.setdefault(key, {})[row.agent_id] = "present"
    for key, agent, doing in _under_way(conn):
        found.setdefault(key, {})[agent] = doing
    views = (
        ImageView(key[0], key[1], sizes.get(key, 0), sorted(where.items()))
        for key, where in found.items()
    )
    return sorted(
        (
            view
            for view in views
            if (reference is None or reference in view.reference)
            and (agent_id is None or any(agent == agent_id for agent, _ in view.agents))
        ),
        key=lambda view: view.key,
    )


def _under_way(conn: Connection) -> Iterable[tuple[tuple[str, str | None], str, str]]:
    """Items that run now, as ((reference, root digest), agent, what is done there)."""
    items, tasks, held = tables.items, tables.tasks, tables.agent_images
    for row in conn.execute(
        select(
            items.c.reference,
            items.c.root_digest,
            items.c.agent_id,
            tasks.c.name,
            held.c.reference.label("held"),
            held.c.root_digest.label("held_digest"),
        )
        .join(tasks, tasks.c.id == items.c.task_id)
        .outerjoin(
            held,
            (held.c.agent_id == items.c.agent_id) & (held.c.reference == items.c.reference),
        )
        .where(items.c.status == ItemStatus.RUNNING)
    ):
        if row.name == PRELOAD:
            yield (row.reference, row.root_digest), row.agent_id, "pulling"
        elif row.held is not None:  # else there is nothing to remove
            yield (row.reference, row.held_digest), row.agent_id, "removing"
