"""Bytes as a person reads them."""

from typing import Final

_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_STEP: Final = 1024
_THREE_DIGITS: Final = 99.95


def size(count: float) -> str:
    """`0 B`, `1.5 MiB`, `812 GiB`: three digits or fewer."""
    amount, unit = float(count), 0
    while amount >= _STEP - 0.5 and unit < len(_UNITS) - 1:
        amount, unit = amount / _STEP, unit + 1
    whole = unit == 0 or amount >= _THREE_DIGITS
    return f"{amount:.0f} {_UNITS[unit]}" if whole else f"{amount:.1f} {_UNITS[unit]}"
