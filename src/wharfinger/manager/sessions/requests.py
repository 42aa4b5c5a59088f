"""What is asked for when a session is created, and what is refused without looking anything up."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NoReturn

from wharfinger.domain.errors import InvalidReference, InvalidRequest
from wharfinger.domain.references import Reference
from wharfinger.domain.slots import MOST, Slots

MOST_KERNELS: Final = 64
MOST_WORDS: Final = 1024
"""Of a command; as many variables may an environment have."""
MOST_BYTES: Final = 64 * 1024
"""Of a command, and of an environment, in UTF-8."""

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


@dataclass(frozen=True, slots=True)
class KernelRequest:
    """One container. An empty command means the image's own."""

    reference: str
    slots: Slots
    command: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SessionRequest:
    """A session: its kernels (the main one first), a name (made up when empty), and the scaling
    group it has to run in (None: any its owner may use)."""

    kernels: Sequence[KernelRequest]
    name: str = ""
    scaling_group: str | None = None


def check(request: SessionRequest) -> list[Reference]:
    """The kernels' references, in their order.

    Raises `InvalidRequest`, whose detail names the `field` and (from 0) the `kernel`, and
    `InvalidReference`.
    """
    if request.name and not _NAME.fullmatch(request.name):
        raise InvalidRequest(
            "A session's name begins with a letter or a digit and has at most 64 letters, digits"
            " and _ . -",
            field="name",
        )
    count = len(request.kernels)
    if not 1 <= count <= MOST_KERNELS:
        raise InvalidRequest(
            f"A session has 1 to {MOST_KERNELS} kernels, not {count}", field="kernels"
        )
    return [_check_kernel(position, kernel) for position, kernel in enumerate(request.kernels)]


def _check_kernel(position: int, kernel: KernelRequest) -> Reference:
    if not (0 < kernel.slots.cpu <= MOST and 0 < kernel.slots.mem <= MOST):
        _refuse(position, "slots", "cpu and mem are more than nothing")
    if not 0 <= kernel.slots.gpu <= MOST:
        _refuse(position, "slots", "gpu is not less than nothing")
    _check_texts(position, "command", kernel.command)
    names, values = list(kernel.environment), list(kernel.environment.values())
    for name in names:
        if not name or "=" in name:
            _refuse(position, "environment", f"{name[:64]!r} is no name: not empty, and without =")
    _check_texts(position, "environment", [*names, *values], most=2 * MOST_WORDS)
    try:
        return Reference.parse(kernel.reference)
    except InvalidReference as error:
        error.detail |= {"kernel": position, "field": "reference"}
        raise


def _check_texts(
    position: int, where: str, texts: Sequence[str], *, most: int = MOST_WORDS
) -> None:
    if len(texts) > most:
        _refuse(position, where, f"at most {MOST_WORDS} entries")
    if any("\0" in text for text in texts):
        _refuse(position, where, "no text may contain NUL")
    try:
        size = sum(len(text.encode()) for text in texts)
    except UnicodeEncodeError:
        _refuse(position, where, "a text has half of a surrogate pair")
    if size > MOST_BYTES:
        _refuse(position, where, f"at most {MOST_BYTES} bytes in all, not {size}")


def _refuse(position: int, where: str, wrong: str) -> NoReturn:
    raise InvalidRequest(f"kernel {position}, {where}: {wrong}", kernel=position, field=where)
