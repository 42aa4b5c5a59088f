"""Starts that cannot be: one sentence each, and nothing left behind."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from rig.server import Outcome, Server

NOWHERE = "unix:///nonexistent/engine.sock"


@pytest.fixture
def program(tmp_path: Path) -> Server:
    """Never started; for its command line, with a configuration of its own."""
    return Server(tmp_path / "program", [])


@pytest.fixture
def full_folder(tmp_path: Path) -> Iterator[Path]:
    """A folder on a disk of 1 MiB with no room left."""
    folder = tmp_path / "full"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "full", str(folder)], check=True)
    try:
        (folder / "filler").write_bytes(bytes(1024 * 1024))
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def up(program: Server, data: Path, *options: str) -> Outcome:
    return program.cli("up", "--data-dir", str(data), "--port", "0", *options, timeout=60)


def sentence(outcome: Outcome) -> str:
    """What was said, which has to be one line for a person."""
    assert outcome.out == ""
    (line,) = outcome.err.splitlines()
    assert line.startswith("error: ")
    return line


def test_a_full_disk_is_told_and_damages_nothing(program: Server, full_folder: Path) -> None:
    names = full_folder / "engines.json"
    filler = full_folder / "filler"
    filler.write_bytes(filler.read_bytes()[:-8192])
    names.write_text(f'{{"gpu={NOWHERE}": "gpu-7"}}')
    filler.write_bytes(bytes(1024 * 1024 - 4096))

    refused = up(program, full_folder, "--engine", f"gpu={NOWHERE}")

    assert refused.code == 1
    assert "No space left" in sentence(refused) or "full" in sentence(refused)
    assert "gpu-7" in names.read_text()


def test_what_another_program_holds_is_told(
    own_server: Server, program: Server, tmp_path: Path
) -> None:
    data = own_server.token_path.parent
    port = own_server.url.rpartition(":")[2]

    same_folder = up(program, data, "--engine", NOWHERE)
    assert same_folder.code == 1
    assert "another wharfinger uses" in sentence(same_folder)

    no_second = program.cli("manager", "--data-dir", str(data), "--port", "0", timeout=60)
    assert no_second.code == 1
    assert "another wharfinger uses" in sentence(no_second)

    same_port = up(program, tmp_path / "data", "--engine", NOWHERE, "--port", port)
    assert same_port.code == 1
    assert f"port {port}" in sentence(same_port)

    agent = program.cli(
        *("agent", "run", "--id", "a", "--manager-url", own_server.url, "--port", port),
        *("--engine", NOWHERE, "--state-dir", str(tmp_path / "agent")),
        timeout=60,
    )
    assert agent.code == 1
    assert "Address already in use" in sentence(agent)
    assert own_server.cli("agent", "ls", "--json").json[0]["status"] == "UP"
