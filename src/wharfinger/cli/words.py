"""Sizes, times and texts as a person reads them."""

import math
import unicodedata
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from wharfinger.domain.sizes import size as size  # noqa: PLC0414 - a word of this module too


def rate(bytes_per_second: float | None) -> str:
    """`12.0 MiB/s`, or nothing while it is not known."""
    return "" if bytes_per_second is None else f"{size(bytes_per_second)}/s"


def clock(seconds: float | None) -> str:
    """`0:07`, `12:30`, `3:05:00`, or nothing while it is not known or never ends."""
    if seconds is None or not math.isfinite(seconds):
        return ""
    minutes, rest = divmod(max(round(seconds), 0), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def age(seconds: float) -> str:
    """`4 s`, `12 min`, `3 h`, `9 d`: the largest whole unit."""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{int(seconds // length)} {unit}"
    return f"{max(int(seconds), 0)} s"


def moment(text: str) -> str:
    """`2026-01-02 03:04:05 UTC` from an ISO 8601 time."""
    return f"{_time(text).astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def since(text: str | None, now: datetime | None = None) -> str:
    """The age of an ISO 8601 time; `-` where there is none."""
    if text is None:
        return "-"
    return age(((now or datetime.now(UTC)) - _time(text)).total_seconds())


def share(done: float, total: float) -> int:
    """Whole per cent, rounded down: 100 only when all of it is done."""
    return int(100 * min(done, total) / total) if total > 0 else 0


def count(number: int, thing: str) -> str:
    """`1 agent`, `2 agents`."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def amount(slot_name: str, number: float) -> str:
    """`2` or `0.5` of cpu and gpu, `4.0 GiB` of mem."""
    return size(number) if slot_name == "mem" else f"{number:g}"


def slot(name: str, number: float) -> str:
    """`2 cpu`, `0.5 cpu`, `4.0 GiB mem`, `1 gpu`."""
    return f"{amount(name, number)} {name}"


def slots(amounts: Mapping[str, Any]) -> str:
    """`2 cpu, 4.0 GiB mem, 1 gpu`: those that are not nothing; `-` when all are."""
    return ", ".join(slot(name, number) for name, number in amounts.items() if number) or "-"


def used(occupied: Mapping[str, Any], most: Mapping[str, Any], unlimited: str = "?") -> str:
    """`cpu 2/8, mem 4.0 GiB/16.0 GiB, gpu 0/1`; `unlimited` stands for a `most` that is None."""
    return (
        ", ".join(
            f"{name} {amount(name, occupied.get(name, 0))}/"
            f"{unlimited if number is None else amount(name, number)}"
            for name, number in most.items()
        )
        or "-"
    )


def remark(sentence: str) -> str:
    """A sentence from anywhere as it follows `error:`: no capital, no full stop."""
    word, space, rest = sentence.removesuffix(".").partition(" ")
    name = any(char.isupper() for char in word[1:])  # SQLite, HTTP
    return (word if name else word[:1].lower() + word[1:]) + space + rest


def plain(text: object) -> str:
    """Text from elsewhere without what would move a terminal's cursor or change its colours."""
    return "".join(
        char
        if not unicodedata.category(char).startswith("C")
        else " "
        if char.isspace()
        else "\ufffd"
        for char in str(text)
    )


def _time(text: str) -> datetime:
    time = datetime.fromisoformat(text)
    return time if time.tzinfo else time.replace(tzinfo=UTC)
