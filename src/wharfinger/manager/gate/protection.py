"""Which images must stay where they are: those an admin protected, and those the settings name."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from sqlalchemy import Connection, select

from wharfinger.domain.failures import Failure, FailureClass
from wharfinger.domain.references import Reference
from wharfinger.manager.storage.tables import images, protected_images


@dataclass(frozen=True, slots=True)
class _Protected:
    reference: str
    by: str
    root_digest: str | None


class Protection:
    """What is protected, read once. `patterns` are shell patterns of canonical references."""

    def __init__(self, conn: Connection, patterns: Sequence[str]) -> None:
        rows = conn.execute(
            select(protected_images, images.c.root_digest)
            .outerjoin(images, images.c.reference == protected_images.c.reference)
            .order_by(protected_images.c.reference)
        )
        self._rows = [
            _Protected(
                row.reference, row.by, Reference.parse(row.reference).digest or row.root_digest
            )
            for row in rows
        ]
        self._patterns = patterns

    def refusal(self, names: Collection[str], root_digests: Collection[str]) -> Failure | None:
        """Why an image must stay that would lose `names`, and is known by these digests."""
        for row in self._rows:
            if row.reference in names or row.root_digest in root_digests:
                return Failure(
                    FailureClass.PROTECTED,
                    f"{row.reference} was protected by {row.by}: unprotect it first, "
                    "or leave it where it is",
                )
        for pattern in self._patterns:
            if found := [name for name in sorted(names) if fnmatchcase(name, pattern)]:
                return Failure(
                    FailureClass.PROTECTED,
                    f"{found[0]} is protected by the manager's settings, as {pattern!r}",
                )
        return None
