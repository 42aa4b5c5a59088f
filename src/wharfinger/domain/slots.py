"""What a kernel needs of a host, and what a host has: processors, memory, graphics processors."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Final, Self

from wharfinger.domain.errors import InvalidRequest

MOST: Final = 2**53 - 1
"""Of each slot: what JSON carries exactly everywhere."""

_DIGITS: Final = 30
"""More than any amount has."""
_SHOWN: Final = 40

_MEMORY: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?b)?", re.IGNORECASE)
_UNITS: Final = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


@dataclass(frozen=True, slots=True)
class Slots:
    """`cpu` in thousandths of a processor, `mem` in bytes, `gpu` in whole devices."""

    cpu: int = 0
    mem: int = 0
    gpu: int = 0

    def __add__(self, other: "Slots") -> "Slots":
        return Slots(self.cpu + other.cpu, self.mem + other.mem, self.gpu + other.gpu)

    def __sub__(self, other: "Slots") -> "Slots":
        return Slots(self.cpu - other.cpu, self.mem - other.mem, self.gpu - other.gpu)

    def fits(self, room: "Slots") -> bool:
        """Whether `room` has at least this much of everything."""
        return self.cpu <= room.cpu and self.mem <= room.mem and self.gpu <= room.gpu

    @classmethod
    def total(cls, parts: Iterable["Slots"]) -> "Slots":
        """All of them together."""
        return sum(parts, Slots())

    def to_json(self) -> dict[str, Any]:
        """`{cpu, mem, gpu}`: processors (a fraction, maybe), bytes, devices."""
        return {"cpu": self.cpu / 1000, "mem": self.mem, "gpu": self.gpu}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """The reverse of `to_json`; what is missing is nothing."""
        return cls(
            round(document.get("cpu", 0) * 1000), document.get("mem", 0), document.get("gpu", 0)
        )


@dataclass(frozen=True, slots=True)
class Quota:
    """Slots at most; None is no limit."""

    cpu: int | None = None
    mem: int | None = None
    gpu: int | None = None

    def exceeded_by(self, slots: Slots) -> list[str]:
        """Which of `cpu`, `mem`, `gpu` are more than allowed."""
        return [
            name
            for name in ("cpu", "mem", "gpu")
            if (most := getattr(self, name)) is not None and getattr(slots, name) > most
        ]


def parse_cpu(text: str) -> int:
    """Thousandths of a processor, from `2`, `0.5` or `250m`. Raises `InvalidRequest`."""
    number, milli = (text[:-1], True) if text.endswith("m") else (text, False)
    try:
        amount = Decimal(number) if number.isascii() else Decimal("NaN")
    except InvalidOperation:
        amount = Decimal("NaN")
    if amount.is_finite() and amount.adjusted() > _DIGITS:  # as an int it would take for ever
        raise InvalidRequest(f"{text[:_SHOWN]!r} is more than any host has")
    thousandths = amount if milli else amount * 1000
    if not thousandths.is_finite() or thousandths != int(thousandths) or thousandths <= 0:
        raise InvalidRequest(f"{text[:_SHOWN]!r} is no number of processors: write 2, 0.5 or 250m")
    return _bounded(int(thousandths), text)


def parse_mem(text: str) -> int:
    """Bytes, from `4g`, `512m`, `1.5GiB` or a plain number. Units are powers of 1024.

    Raises `InvalidRequest`.
    """
    match = _MEMORY.fullmatch(text.strip()) if text.isascii() else None
    amount = Decimal(match[1]) * _UNITS[match[2].lower()] if match else Decimal(0)
    if amount < 1:
        raise InvalidRequest(
            f"{text[:_SHOWN]!r} is no amount of memory: write 4g, 512m or a number of bytes"
        )
    return _bounded(int(amount), text)


def _bounded(amount: int, text: str) -> int:
    if amount > MOST:
        raise InvalidRequest(f"{text[:_SHOWN]!r} is more than any host has")
    return amount
