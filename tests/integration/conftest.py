"""Whatever is tested with real parts must not hold up the event loop."""

from collections.abc import Iterator

import prometheus_client  # noqa: F401 - stamina imports it at the first retry: reads files
import pytest
import structlog
from blockbuster import blockbuster_ctx


@pytest.fixture(autouse=True)
def _loop_never_blocks() -> Iterator[None]:
    """A blocking call of ours inside the event loop raises `BlockingError`."""
    with blockbuster_ctx("wharfinger") as watched:
        # it reads the working directory, once, where a SQLite database is opened
        watched.functions["os.path.abspath"].deactivate()
        yield


@pytest.fixture(autouse=True)
def _plain_tracebacks() -> Iterator[None]:
    """As the programs log them: structlog's default looks for the files of all frames meanwhile."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.dev.ConsoleRenderer(
                colors=False, exception_formatter=structlog.dev.plain_traceback
            ),
        ]
    )
    yield
    structlog.reset_defaults()
