"""Which command a line of words means."""

import click
import pytest

from wharfinger.cli import server
from wharfinger.cli.main import run


@pytest.mark.parametrize("arguments", [["--nonsense"], ["run", "--nonsense"]])
def test_agent_with_options_runs_the_agent(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["agent", *arguments]) == 2
    assert "Usage: wharfinger agent run" in capsys.readouterr().err


def test_agent_alone_runs_the_agent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ran = []
    monkeypatch.setattr(server, "run_agent", click.Command("run", callback=lambda: ran.append(1)))
    assert run(["agent"]) == 0
    assert ran == [1]


def test_help_of_agent_lists_its_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["agent", "--help"]) == 0
    told = capsys.readouterr().out
    for command in ("run", "ls", "show", "cordon", "uncordon", "rm", "token"):
        assert f"  {command} " in told


@pytest.mark.parametrize("group", ["image", "task", "registry", "user", "token", "agent"])
def test_every_command_has_an_example(group: str, capsys: pytest.CaptureFixture[str]) -> None:
    run([group, "--help"])
    listed = capsys.readouterr().out.partition("Commands:")[2].split("\n")
    names = [line.split()[0] for line in listed if line.startswith("  ") and line[2] != " "]
    assert names
    for name in names:
        if name == "run":
            continue
        run([group, name, "--help"])
        told = capsys.readouterr().out
        assert "Example" in told
        assert f"wharfinger {group} {name}" in told
        assert "--json" in told


def test_an_unknown_command_is_answered_with_the_known(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["imaeg"]) == 2
    assert "image" in capsys.readouterr().err
