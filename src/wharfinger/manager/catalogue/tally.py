"""What a rescan found, per registry: for the task's `detail`, and the sentence of its end."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from wharfinger.domain.errors import WharfingerError
from wharfinger.domain.failures import Failure, FailureClass, FailureError
from wharfinger.domain.states import TaskStatus
from wharfinger.manager.background.port import TaskResult

NAMED: Final = 100
"""Failures of one registry that are told one by one."""


@dataclass(slots=True)
class Tally:
    """One registry. `tags` were listed, `read` of them looked at; `others` are no images."""

    registry: str
    lists: bool = True
    """Whether it lets us read which repositories it has."""
    repositories: int = 0
    tags: int = 0
    read: int = 0
    new: int = 0
    moved: int = 0
    missing: int = 0
    unchanged: int = 0
    others: int = 0
    failed: int = 0
    failures: list[dict[str, Any]] = field(default_factory=list)
    first: Failure | None = None

    def fail(self, error: WharfingerError, **subject: str) -> None:
        """Note what failed alone: `reference`, `repository` or `registry`."""
        self.failed += 1
        self.first = self.first or _failure(error)
        if len(self.failures) < NAMED:
            self.failures.append({**subject, "class": error.code, "message": error.message})

    @property
    def hopeless(self) -> bool:
        """Whether nothing of it could be read."""
        return bool(self.failed) and not self.repositories

    def to_json(self) -> dict[str, Any]:
        """As the task's `detail` shows it."""
        return {
            "registry": self.registry,
            "repositoriesFrom": "registry" if self.lists else "catalogue",
            "repositories": self.repositories,
            "tags": self.tags,
            "new": self.new,
            "moved": self.moved,
            "missing": self.missing,
            "unchanged": self.unchanged,
            "notImages": self.others,
            "failed": self.failed,
            "failures": list(self.failures),
        }


def detail(tallies: Sequence[Tally]) -> dict[str, Any]:
    """Of the whole task."""
    return {"registries": [each.to_json() for each in tallies]}


def result(tallies: Sequence[Tally]) -> TaskResult:
    """How a rescan ended that came to its end."""
    failed = sum(each.failed for each in tallies)
    status, failure = TaskStatus.SUCCEEDED, None
    if tallies and all(each.hopeless for each in tallies):
        status, failure = TaskStatus.FAILED, tallies[0].first
    elif failed:
        status = TaskStatus.PARTIALLY_SUCCEEDED
    return TaskResult(status, _sentence(tallies, failed), failure, detail(tallies))


def _failure(error: WharfingerError) -> Failure:
    if isinstance(error, FailureError):
        return error.failure
    return Failure(FailureClass.AUTH, error.message, error.code)  # nobody could ask


def _sentence(tallies: Sequence[Tally], failed: int) -> str:
    if not tallies:
        return "no registry is known"
    new, moved, missing, unchanged = (
        sum(getattr(each, name) for each in tallies)
        for name in ("new", "moved", "missing", "unchanged")
    )
    said = f"{new:,} new, {moved:,} moved, {missing:,} missing, {unchanged:,} unchanged"
    return f"{said}; {failed:,} could not be read" if failed else said


def going_on(tallies: Sequence[Tally]) -> str:
    """What is under way: `host: 1,234 of 5,000 tags`."""
    return "; ".join(
        f"{each.registry}: {each.read:,} of {each.tags:,} tags" for each in tallies if each.tags
    )
