"""The program starts without what it does not need."""

import subprocess
import sys

import pytest

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
    [("agent", "--help"), ("agent", "ls"), ("task", "watch", "x")],
)
def test_a_command_never_imports_the_server(arguments: tuple[str, ...]) -> None:
    modules = imported(*arguments)
    ours = {name for name in modules if name.startswith("wharfinger.")}
    assert not modules.intersection(SERVER)
    assert not {name for name in ours if name.split(".")[1] in {"manager", "agent", "run"}}


def test_help_imports_neither_the_client_nor_what_draws() -> None:
    assert not imported("--help").intersection({"aiohttp", "asyncio", "rich"})
