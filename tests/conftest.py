"""Fixtures for every level: migrated databases, fresh per test."""

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from rig.postgres import Postgres
from rig.redis import REDIS, VALKEY, RedisProcess

from wharfinger.manager.storage.migrate import migrate
from wharfinger.manager.storage.opening import open_storage
from wharfinger.manager.storage.port import Storage

# Before its first test pytest-asyncio asks for the present event loop, to put it back later, and
# asyncio would make one that nobody closes. After this there is none, and none is made.
asyncio.set_event_loop(None)

settings.register_profile(
    "sample",
    deadline=None,  # machines differ; a stage has a deadline as a whole
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)
settings.register_profile("full", settings.get_profile("sample"), max_examples=1000)
settings.load_profile(os.environ.get("WHARFINGER_TEST_EXTENT", "sample"))

pytest_plugins = ["rig.cluster"]


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    # not in pytest's own folder, which the server's user may not enter
    folder = Path(tempfile.gettempdir()) / f"wharfinger-postgres-{os.getpid()}"
    with Postgres(folder) as server:
        yield server


@pytest.fixture(scope="session")
def postgres_template(postgres: Postgres) -> str:
    url = postgres.fresh_database()
    migrate(url)
    return url.rpartition("/")[2]


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sqlite") / "template"
    migrate(f"sqlite:///{path}")
    return path


@pytest.fixture
def postgresql_url(postgres: Postgres, postgres_template: str) -> Iterator[str]:
    url = postgres.fresh_database(postgres_template)
    yield url
    postgres.drop_database(url)


@pytest.fixture
def sqlite_url(sqlite_template: Path, tmp_path: Path) -> str:
    path = tmp_path / "database"
    shutil.copy(sqlite_template, path)
    return f"sqlite:///{path}"


@pytest.fixture(params=["sqlite", "postgresql"])
def storage_url(request: pytest.FixtureRequest) -> str:
    """A fresh database at head, one of each kind in turn."""
    return str(request.getfixturevalue(f"{request.param}_url"))


@pytest.fixture
async def storage(storage_url: str) -> AsyncIterator[Storage]:
    """Each adapter in turn, on a fresh database."""
    opened = open_storage(storage_url)
    yield opened
    await opened.close()


@pytest.fixture
async def sqlite_storage(sqlite_url: str) -> AsyncIterator[Storage]:
    """One adapter, for tests that any will do for."""
    opened = open_storage(sqlite_url)
    yield opened
    await opened.close()


@pytest.fixture(scope="session")
def redis() -> Iterator[RedisProcess]:
    yield from _bus_server(REDIS)


@pytest.fixture(scope="session")
def valkey() -> Iterator[RedisProcess]:
    if not VALKEY.exists():
        pytest.skip("no Valkey server is to be had here")
    yield from _bus_server(VALKEY)


def _bus_server(program: str | Path) -> Iterator[RedisProcess]:
    # not in pytest's own folder: the path of a Unix socket has to be short
    name = f"wharfinger-{Path(program).name}-{os.getpid()}"
    with RedisProcess(Path(tempfile.gettempdir()) / name, program) as server:
        yield server
