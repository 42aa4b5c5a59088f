"""Which version of the Docker API is spoken: never pinned, settled with each engine."""

import re
from typing import Any, Final

from wharfinger.agent.engine.port import EngineError
from wharfinger.domain.failures import Failure, FailureClass

OLDEST: Final = (1, 40)
NEWEST: Final = (1, 51)
"""What the adapter is written for: Docker 19.03 to 28."""


def choose_api(version: Any) -> str:
    """The newest version both sides know, from the answer to `GET /version`.

    Raises `EngineError` of class `unsupported` when there is none.
    """
    body = version if isinstance(version, dict) else {}
    newest = _numbers(body.get("ApiVersion"))
    oldest = _numbers(body.get("MinAPIVersion")) or OLDEST
    if newest is None:
        raise _unsupported("names no API version", str(version)[:200])
    chosen = min(newest, NEWEST)
    if chosen < max(oldest, OLDEST):
        raise _unsupported(
            f"speaks API {_dotted(oldest)} to {_dotted(newest)}; "
            f"needed is one of {_dotted(OLDEST)} to {_dotted(NEWEST)}",
            f"version {body.get('Version')}",
        )
    return _dotted(chosen)


def _unsupported(how: str, detail: str) -> EngineError:
    return EngineError(Failure(FailureClass.UNSUPPORTED, f"the container engine {how}", detail))


def _numbers(text: Any) -> tuple[int, int] | None:
    found = re.fullmatch(r"(\d+)\.(\d+)", text) if isinstance(text, str) else None
    return (int(found[1]), int(found[2])) if found else None


def _dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"
