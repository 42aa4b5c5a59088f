"""Which command a line of words means."""

import json

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


@pytest.mark.parametrize(
    "arguments",
    [
        ["session", "logs", "\udcff"],
        ["session", "watch", "\udcff"],
        ["image", "forget", "a", "\udcff"],
        ["session", "create", "a/b", "--cpu", "1e9999999"],
        ["user", "limit", "bob", "--sessions", "9" * 5000],
        ["session", "ls", "--url", "http://ann:word@127.0.0.1:1"],
    ],
)
def test_what_cannot_be_sent_is_a_wrong_command(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*arguments, "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["class"] == "invalid-request"


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


@pytest.mark.parametrize(
    "group", ["image", "session", "task", "registry", "user", "token", "agent"]
)
def test_every_command_has_an_example(group: str, capsys: pytest.CaptureFixture[str]) -> None:
    run([group, "--help"])
    listed = capsys.readouterr().out.partition("Commands:")[2].split("\n")
    names = [line.split()[0] for line in listed if line.startswith("  ") and line[2] != " "]
    assert names
    for name in names:
        run([group, name, "--help"])
        told = capsys.readouterr().out
        assert "Example" in told
        assert f"wharfinger {group} {name}" in told
        assert "--json" in told or name == "run"


@pytest.mark.parametrize("words", [["up"], ["manager"], ["agent", "run"], ["image"], ["agent"]])
def test_help_has_examples_on_lines_of_their_own(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*words, "--help"]) == 0
    told = capsys.readouterr().out
    assert "\b" not in told
    assert "\\b" not in told
    _, _, examples = told.partition("  Example")
    assert examples.splitlines()[1].startswith("    ")
    assert f"wharfinger {' '.join(words)}" in examples


@pytest.mark.parametrize(
    ("words", "known"), [(["imaeg"], "image"), (["image", "nope"], "forget, ls, preload")]
)
def test_an_unknown_command_is_answered_with_the_known(
    words: list[str], known: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words) == 2
    assert known in capsys.readouterr().err


def test_what_is_missing_is_answered_with_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["image", "preload"]) == 2
    told = capsys.readouterr().err
    assert "\nerror: missing argument 'REF...'\n" in told
    assert "for example: wharfinger image preload 127.0.0.1:5000/app:v1 --all-agents" in told


def test_an_agent_that_is_told_nothing_says_what_it_needs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for variable in ("WHARFINGER_AGENT_ID", "WHARFINGER_AGENT_MANAGER_URL"):
        monkeypatch.delenv(variable, raising=False)
    assert run(["agent", "run"]) == 2
    assert capsys.readouterr().err == (
        "error: --id or WHARFINGER_AGENT_ID is needed; "
        "--manager-url or WHARFINGER_AGENT_MANAGER_URL is needed\n"
    )
