"""The API on a port, and what it logs."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from rig.api import Api, running_api
from structlog.testing import capture_logs

from wharfinger.manager.storage.port import Storage


@pytest.fixture(autouse=True)
def logged() -> Iterator[list[Any]]:
    """The log, line by line; unrendered, since a pretty traceback takes seconds."""
    with capture_logs() as lines:
        yield lines


@pytest.fixture
async def api(sqlite_storage: Storage) -> AsyncIterator[Api]:
    async with running_api(sqlite_storage) as running:
        yield running
