"""Standard streams that are closed, full or gone: no traceback, and a code that does not lie."""

from typing import Any

import pytest
from rig.odd_manager import Odd, OddManager

from .conftest import Ended, Program
from .test_following import PRELOAD, RUNNING, begun, event

LS = ("image", "ls")
STATUS = '; s=("${PIPESTATUS[@]}"); exit "${s[0]}"'


@pytest.fixture
def manager(manager: OddManager) -> OddManager:
    """One that holds many images: more than a pipe does."""
    manager.answers["Images"] = images
    return manager


def images(variables: dict[str, Any]) -> dict[str, Any]:
    first = int(variables["after"] or 0)
    last = min(first + variables["first"], 1000)
    digest = "sha256:" + "a" * 64
    nodes: list[dict[str, Any]] = [
        {
            "reference": f"r:5000/app:v{n:04}",
            "rootDigest": digest,
            "size": n,
            "status": "known",
            "protected": False,
            "bytesOnAgents": 0,
            "agents": [],
        }
        for n in range(first, last)
    ]
    page = {"hasNextPage": last < 1000, "endCursor": str(last)}
    return {"images": {"nodes": nodes, "pageInfo": page}}


def unbroken(ended: Ended) -> None:
    assert "Traceback" not in ended.err
    assert "Exception ignored" not in ended.err
    assert "Usage" not in ended.err


def test_all_pages_are_read(program: Program, manager: OddManager) -> None:
    ended = program.run(*LS, "--json")
    assert [each["size"] for each in ended.document] == list(range(1000))
    assert manager.operations() == ["Images"] * 5


@pytest.mark.parametrize(
    ("more", "reader"), [((), "head -n 1"), (("--json",), "head -n 1"), (("--json",), "true")]
)
def test_a_reader_that_leaves_is_no_usage_error(
    program: Program, more: tuple[str, ...], reader: str
) -> None:
    ended = program.shell(f'"$@" | {reader}{STATUS}', *LS, *more)
    unbroken(ended)
    assert ended.code == 141
    assert ended.err == ""


@pytest.mark.parametrize("arguments", [LS, (*LS, "--json"), ("image", "ls", "--help")])
def test_a_full_disk_is_said(program: Program, arguments: tuple[str, ...]) -> None:
    ended = program.shell('"$@" > /dev/full', *arguments)
    unbroken(ended)
    assert ended.code == 1
    assert ended.err == "error: standard output cannot be written: No space left on device\n"


def test_help_into_a_pipe_that_is_closed_is_silent(program: Program) -> None:
    ended = program.shell(f'"$@" | true{STATUS}', "--help")
    unbroken(ended)
    # what little it says may have been written before the reader went
    assert ended.code in {0, 141}


@pytest.mark.parametrize(
    ("closed", "code"),
    [("<&-", 0), (">&-", 1), ("2>&-", 0), ("<&- >&- 2>&-", 1), ("2>/dev/full", 0)],
)
def test_streams_that_were_never_there(program: Program, closed: str, code: int) -> None:
    ended = program.shell(f'"$@" {closed}', *LS, "--json")
    unbroken(ended)
    assert ended.code == code


def test_no_standard_input_is_no_password(program: Program) -> None:
    ended = program.shell(
        '"$@" <&-', "registry", "add", "http://r", "--username", "u", "--password-stdin"
    )
    assert ended.code == 2
    assert "no password came on standard input" in ended.err


def test_errors_to_a_full_standard_error_keep_their_code(stranger: Program) -> None:
    assert stranger.shell('"$@" 2>/dev/full', *LS).code == 5
    assert stranger.shell('"$@" 2>/dev/full', "image", "preload").code == 2


def test_a_preload_whose_reader_leaves_goes_on(program: Program, manager: OddManager) -> None:
    begun(manager)
    manager.streams = [[event("1-1", "bgtask_updated", RUNNING), Odd.HOLD]]
    ended = program.shell(f'"$@" | true{STATUS}', *PRELOAD)
    unbroken(ended)
    assert ended.code == 141
    assert "wharfinger task watch task-1" in ended.err
    assert "CancelTask" not in manager.operations()


def test_a_locale_without_unicode_is_no_trouble(program: Program) -> None:
    program.environ |= {"PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    assert program.run(*LS).code == 0
    assert program.run("--help").code == 0
