"""What is refused, not reachable, or not written right: the code, one sentence, one document."""

import json

import pytest
from rig.odd_manager import OddManager
from rig.ports import free_port

from wharfinger.client.connection import write_connection

from .conftest import Program

LS = ("image", "ls", "--json")


@pytest.mark.parametrize("status", [401, 403])
def test_who_is_not_allowed_gets_4(program: Program, manager: OddManager, status: int) -> None:
    manager.refuse(status, "forbidden", "This token is not known")
    ended = program.run(*LS)
    assert ended.code == 4
    assert ended.document["error"]["class"] == "forbidden"
    assert ended.err == "error: this token is not known\n"


def test_who_has_no_token_is_told_where_it_comes_from(
    stranger: Program, manager: OddManager
) -> None:
    manager.refuse(401, "forbidden", "No token was sent")
    ended = stranger.run(*LS, "--url", manager.url)
    assert ended.code == 4
    assert "WHARFINGER_TOKEN" in ended.err
    assert "Authorization" not in manager.requests[0].headers


def test_a_graphql_error_keeps_its_class(program: Program, manager: OddManager) -> None:
    error = {
        "message": "Only a superadmin sees users",
        "extensions": {"class": "forbidden", "detail": {"role": "user"}},
    }
    manager.answers["Users"] = {"data": None, "errors": [error]}
    ended = program.run("user", "ls", "--json")
    assert ended.code == 4
    assert ended.document == {
        "error": {
            "class": "forbidden",
            "message": "Only a superadmin sees users",
            "detail": {"role": "user"},
        }
    }


@pytest.mark.parametrize(
    "raw",
    [
        (200, "text/html", b"<html>hello</html>"),
        (200, "application/json", b'{"data": 5}'),
        (302, "text/plain", b""),
        (404, "application/json", b'{"errors": "a registry says this"}'),
    ],
)
def test_something_else_on_the_port_is_said(
    program: Program, manager: OddManager, raw: tuple[int, str, bytes]
) -> None:
    manager.raw = raw
    ended = program.run(*LS)
    assert ended.code == 1
    assert "is not a Wharfinger manager" in ended.document["error"]["message"]
    assert "Traceback" not in ended.err


def test_a_manager_that_is_not_ready_is_asked_again_and_then_not_reachable(
    program: Program, manager: OddManager
) -> None:
    manager.refuse(503, "internal", "starting")
    ended = program.run(*LS)
    assert ended.code == 5
    assert len(manager.requests) == 3


def test_what_a_manager_says_of_an_agent_is_told_and_asked_once(
    program: Program, manager: OddManager
) -> None:
    manager.refuse(502, "internal", "agent one does not answer")
    ended = program.run(*LS)
    assert (ended.code, ended.err) == (1, "error: agent one does not answer\n")
    assert len(manager.requests) == 1


def test_nobody_on_the_port_is_5(stranger: Program) -> None:
    ended = stranger.run(*LS, "--url", f"http://127.0.0.1:{free_port()}")
    assert ended.code == 5
    assert ended.document["error"]["class"] == "network"
    assert ended.err.startswith("error: no manager is reachable at http://127.0.0.1:")
    assert ended.err.count("\n") == 1


def test_the_file_that_names_nobody_is_named(stranger: Program) -> None:
    file = write_connection(f"http://127.0.0.1:{free_port()}", "filed", stranger.environ)
    ended = stranger.run(*LS)
    assert ended.code == 5
    assert f"(the URL is from {file})" in ended.err


def test_who_is_not_let_in_by_something_else_is_told_where(
    program: Program, manager: OddManager
) -> None:
    manager.raw = (401, "text/plain", b"go away")
    ended = program.run(*LS)
    assert ended.code == 4
    assert f"is {manager.url} a Wharfinger manager?" in ended.err


def test_no_manager_known_is_5_and_says_how_to_have_one(stranger: Program) -> None:
    ended = stranger.run(*LS)
    assert ended.code == 5
    assert "wharfinger up" in ended.err


def test_the_written_file_is_enough(stranger: Program, manager: OddManager) -> None:
    write_connection(manager.url, "filed", stranger.environ)
    manager.answers["Registries"] = {"registries": []}
    ended = stranger.run("registry", "ls", "--json")
    assert (ended.code, ended.out, ended.err) == (0, "[]\n", "")
    assert manager.requests[0].headers["Authorization"] == "Bearer filed"


@pytest.mark.parametrize(
    "arguments",
    [
        ("image", "preload", "r/a:v1"),
        ("image", "preload", "--all-agents"),
        ("image", "nonsense"),
        ("registry", "add", "http://r", "--username", "u"),
    ],
)
def test_what_is_not_written_right_is_2(program: Program, arguments: tuple[str, ...]) -> None:
    ended = program.run(*arguments, "--json")
    assert ended.code == 2
    assert ended.document["error"]["class"] == "invalid-request"
    assert "Usage:" in ended.err


def test_a_password_comes_from_standard_input_alone(program: Program, manager: OddManager) -> None:
    known = {"host": "r.lan", "url": "https://r.lan", "username": "ci"}
    manager.answers["AddRegistry"] = {"answer": known}
    add = ("registry", "add", "https://r.lan", "--username", "ci", "--password-stdin")
    ended = program.run(*add, "--json", stdin="se cret\n")
    assert (ended.code, ended.document) == (0, known)
    assert manager.requests[0].body["variables"]["password"] == "se cret"
    assert program.run(*add).code == 2


def test_a_refusal_before_anything_exists_is_1_with_its_class(
    program: Program, manager: OddManager
) -> None:
    refused = {
        "failureClass": "unknown-selector",
        "failureMessage": "unknown selector 'x'; known here: *, a",
        "failureDetail": {"unknown": ["x"], "known": ["*", "a"]},
    }
    manager.answers["Preload"] = {"answer": refused}
    ended = program.run("image", "preload", "r/a:v1", "--agents", "x", "--json")
    assert ended.code == 1
    assert json.loads(ended.out)["error"]["detail"] == {"unknown": ["x"], "known": ["*", "a"]}
