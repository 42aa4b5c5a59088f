"""The program starts without what it does not need, and tells of its start."""

import subprocess
import sys
from pathlib import Path

import pytest
from rig.odd_manager import OddManager

from wharfinger.client.connection import find_connection, write_connection

from .conftest import Program

SERVER = ("pydantic", "sqlalchemy", "fastapi", "strawberry", "uvicorn", "aiodocker")


def imported(*arguments: str) -> set[str]:
    program = (
        "import sys; from wharfinger.cli.main import run\n"
        f"run({list(arguments)!r})\n"
        "print(*sys.modules, sep='\\n', file=sys.stderr)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program],
        env={"HOME": "/nonexistent", "WHARFINGER_URL": "http://127.0.0.1:1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return set(ended.stderr.split())


@pytest.mark.parametrize(
    "arguments",
    [
        ("agent", "--help"),
        ("agent", "ls"),
        ("task", "watch", "x"),
        ("session", "create", "r/app:v1", "--wait"),
    ],
)
def test_a_command_never_imports_the_server(arguments: tuple[str, ...]) -> None:
    modules = imported(*arguments)
    ours = {name for name in modules if name.startswith("wharfinger.")}
    assert not modules.intersection(SERVER)
    assert not {name for name in ours if name.split(".")[1] in {"manager", "agent", "run"}}


def test_help_imports_neither_the_client_nor_what_draws() -> None:
    assert not imported("--help").intersection({"aiohttp", "asyncio", "rich"})


def test_up_says_whose_place_it_takes_and_when_it_stops(
    stranger: Program, manager: OddManager, tmp_path: Path
) -> None:
    manager.raw = (200, "text/plain", b"alive")
    write_connection(manager.url, "filed", stranger.environ)
    engine = f"unix://{tmp_path}/none.sock"
    up = stranger.start(
        "up", "--port", "0", "--data-dir", str(tmp_path / "data"), "--engine", engine
    )
    assert up.stdout is not None
    assert any("next:" in line for line in iter(up.stdout.readline, ""))
    ended = stranger.interrupt(up)
    assert ended.code == 0
    assert f"the commands spoke to {manager.url} before, which still runs" in ended.err
    assert "\nstopping\n" in ended.err
    assert ended.err.endswith("\nstopped\n")
    assert find_connection(environ=stranger.environ).url != manager.url
