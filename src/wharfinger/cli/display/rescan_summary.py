"""What a rescan found, registry by registry."""

from collections.abc import Sequence
from typing import Final, cast

from wharfinger.cli import words
from wharfinger.client.shapes import RescanFailure, RescannedRegistry, Task

COLUMNS: Final = (
    "REGISTRY",
    "REPOSITORIES",
    "TAGS",
    "NEW",
    "MOVED",
    "MISSING",
    "UNCHANGED",
    "FAILED",
)


def registries(task: Task) -> Sequence[RescannedRegistry]:
    """What a rescan found; nothing for other tasks, and before it has ended."""
    detail = task["detail"] or {}
    return cast("Sequence[RescannedRegistry]", detail.get("registries", ()))


def rows(found: Sequence[RescannedRegistry]) -> list[tuple[object, ...]]:
    """A row per registry."""
    return [
        (
            each["registry"],
            each["repositories"],
            each["tags"],
            each["new"],
            each["moved"],
            each["missing"],
            each["unchanged"],
            each["failed"],
        )
        for each in found
    ]


def failures(found: Sequence[RescannedRegistry]) -> list[str]:
    """A line for everything that could not be read: what, class and sentence; of many the first,
    and how many more."""
    lines = [
        words.plain(f"{_subject(each, failure)}: {failure['class']}: {failure['message']}")
        for each in found
        for failure in each["failures"]
    ]
    rest = sum(each["failed"] for each in found) - len(lines)
    return [*lines, f"and {rest} more"] if rest > 0 else lines


def counts(found: Sequence[RescannedRegistry]) -> str:
    """`12 new, 3 moved, 0 missing, 480 unchanged, 1 failed`."""
    sums = [
        f"{sum(each['new'] for each in found)} new",
        f"{sum(each['moved'] for each in found)} moved",
        f"{sum(each['missing'] for each in found)} missing",
        f"{sum(each['unchanged'] for each in found)} unchanged",
    ]
    failed = sum(each["failed"] for each in found)
    return ", ".join([*sums, f"{failed} failed"] if failed else sums)


def _subject(registry: RescannedRegistry, failure: RescanFailure) -> str:
    return failure.get("reference") or failure.get("repository") or registry["registry"]
