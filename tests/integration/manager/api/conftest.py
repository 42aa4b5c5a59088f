"""The API on a port."""

from collections.abc import AsyncIterator

import pytest
from rig.api import Api, running_api

from wharfinger.manager.storage.port import Storage


@pytest.fixture
async def api(sqlite_storage: Storage) -> AsyncIterator[Api]:
    async with running_api(sqlite_storage) as running:
        yield running
