"""Logs: structured, on standard error, with secrets struck out.

What libraries log through the standard library goes the same way.
"""

import logging
import re
import sys
from collections.abc import Mapping
from typing import Any, Final, TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

_STRUCK: Final = "***"
_SECRET_KEYS: Final = re.compile(
    r"password|passwd|secret|token|authorization|credential|api_?key|cookie", re.IGNORECASE
)
_HARMLESS_KEYS: Final = frozenset({"token_id", "tokenId"})
_SECRET_TEXT: Final = (
    (re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{6,}"), rf"\1 {_STRUCK}"),
    (re.compile(r"\bwh[uj]_[A-Za-z0-9_-]{8,}"), _STRUCK),
    (re.compile(r"(://[^/\s:@]*):[^/\s@]+@"), rf"\1:{_STRUCK}@"),
)


def configure(*, json: bool, level: str = "info", stream: TextIO | None = None) -> None:
    """Send everything to `stream` (standard error): JSON lines, or aligned text for people."""
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    shown: list[Processor] = [
        structlog.stdlib.ProcessorFormatter.remove_processors_meta,
        structlog.processors.format_exc_info,
        strike_out_secrets,
        structlog.processors.JSONRenderer(ensure_ascii=False)
        if json
        else structlog.dev.ConsoleRenderer(
            colors=False, exception_formatter=structlog.dev.plain_traceback
        ),
    ]
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=shown)
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.upper())
    # these tell at "info" what we log ourselves
    for chatty in ("uvicorn.error", "aiohttp.access", "alembic.runtime"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )


def strike_out_secrets(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Replace what must not be written: values under telling keys, and secrets within text."""
    return {key: _struck(key, value) for key, value in event.items()}


def _struck(key: str, value: Any) -> Any:
    empty = value is None or value == ""
    if _SECRET_KEYS.search(key) and key not in _HARMLESS_KEYS and not empty:
        return _STRUCK
    if isinstance(value, str):
        for pattern, replacement in _SECRET_TEXT:
            value = pattern.sub(replacement, value)
        return value
    if isinstance(value, Mapping):
        return {inner: _struck(str(inner), part) for inner, part in value.items()}
    if isinstance(value, list | tuple):
        return [_struck("", part) for part in value]
    return value
