import asyncio
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from wharfinger.agent.engine import data_root
from wharfinger.agent.engine.data_root import DataRoot


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A file system that does not answer until the test is over; who asked it."""
    over, asked = threading.Event(), []

    def statvfs(path: str) -> os.statvfs_result:
        asked.append(path)
        over.wait(10)
        raise OSError

    monkeypatch.setattr(os, "statvfs", statvfs)
    monkeypatch.setattr(data_root, "ANSWERS_WITHIN", 0.02)
    yield asked
    over.set()


async def test_the_room_is_what_an_ordinary_process_may_use(tmp_path: Path) -> None:
    seen = os.statvfs(tmp_path)
    disk = await DataRoot(str(tmp_path)).measure()
    assert disk is not None
    assert disk.total == seen.f_blocks * seen.f_frsize
    assert disk.free <= seen.f_bfree * seen.f_frsize


async def test_a_folder_that_is_not_here_tells_nothing(tmp_path: Path) -> None:
    assert await DataRoot(str(tmp_path / "elsewhere")).measure() is None


async def test_a_file_system_that_hangs_is_asked_once_and_holds_nobody_up(
    hanging: list[str],
) -> None:
    root = DataRoot("/gone")
    async with asyncio.timeout(5):
        assert [await root.measure() for _ in range(3)] == [None, None, None]
    assert hanging == ["/gone"]
