"""Where the manager is, and whose token goes to whom."""

import json
from pathlib import Path

import pytest

from wharfinger.client.connection import (
    connection_file,
    find_connection,
    last_connection,
    write_connection,
)
from wharfinger.client.errors import InvalidConnection, NotConfigured


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"XDG_CONFIG_HOME": str(tmp_path)}


def test_what_is_written_is_found_again(environ: dict[str, str]) -> None:
    path = write_connection("http://[::1]:8080/", "secret", environ)
    assert path.stat().st_mode & 0o777 == 0o600
    assert json.loads(path.read_text()) == {"url": "http://[::1]:8080", "token": "secret"}
    found = find_connection(environ=environ)
    assert (found.url, found.token, found.warning) == ("http://[::1]:8080", "secret", "")
    assert found.file == path


def test_writing_again_replaces_the_file_and_leaves_nothing_else(environ: dict[str, str]) -> None:
    path = write_connection("http://127.0.0.1:1", "old", environ)
    path.chmod(0o644)
    write_connection("http://127.0.0.1:2", "new", environ)
    assert find_connection(environ=environ).token == "new"
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(path.parent.iterdir()) == [path]


def test_nothing_known_is_said(environ: dict[str, str]) -> None:
    with pytest.raises(NotConfigured, match="wharfinger up"):
        find_connection(environ=environ)


def test_the_argument_wins_over_the_environment_and_that_over_the_file(
    environ: dict[str, str],
) -> None:
    write_connection("http://127.0.0.1:1", "filed", environ)
    environ["WHARFINGER_URL"] = "http://127.0.0.1:2"
    environ["WHARFINGER_TOKEN"] = "given"
    assert find_connection("http://127.0.0.1:3", environ).url == "http://127.0.0.1:3"
    assert find_connection(environ=environ).url == "http://127.0.0.1:2"
    del environ["WHARFINGER_URL"]
    found = find_connection(environ=environ)
    assert (found.url, found.token) == ("http://127.0.0.1:1", "given")


@pytest.mark.parametrize(
    ("url", "token"),
    [
        ("http://127.0.0.1:8080", "filed"),
        ("http://localhost:8080/", "filed"),
        ("http://[::1]:8080", "filed"),
        ("http://127.0.0.1:8081", None),
        ("https://127.0.0.1:8080", None),
        ("http://elsewhere.example:8080", None),
    ],
)
def test_the_files_token_goes_to_its_own_server_alone(
    environ: dict[str, str], url: str, token: str | None
) -> None:
    write_connection("http://127.0.0.1:8080", "filed", environ)
    assert find_connection(url, environ).token == token


def test_a_file_that_others_may_read_is_warned_of(environ: dict[str, str]) -> None:
    path = write_connection("http://127.0.0.1:1", "secret", environ)
    path.chmod(0o640)
    assert f"chmod 600 {path}" in find_connection(environ=environ).warning


@pytest.mark.parametrize("text", ["", "{", "[]", '{"url": "http://a"}', "\udcff"])
def test_a_broken_file_is_named(environ: dict[str, str], text: str) -> None:
    path = connection_file(environ)
    path.parent.mkdir()
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(InvalidConnection, match=r"client\.json"):
        find_connection(environ=environ)
    assert last_connection(environ) is None


@pytest.mark.parametrize(
    "url",
    [
        "127.0.0.1:8080",
        "ftp://a",
        "http://",
        "http://a:b",
        "http://[::1",
        "http://ann:word@a",
        "http://a?b",
        "http://a/#b",
        "http://a b",
        "http://a\r",
    ],
)
def test_what_is_no_url_is_refused_with_an_example(environ: dict[str, str], url: str) -> None:
    with pytest.raises(InvalidConnection, match=r"http://127\.0\.0\.1:8080"):
        find_connection(url, environ)


@pytest.mark.parametrize("token", ["secret\r", "sec\x7fret", "\udcff", "é"])
def test_a_token_that_no_header_carries_is_refused_untold(
    environ: dict[str, str], token: str
) -> None:
    environ |= {"WHARFINGER_URL": "http://a", "WHARFINGER_TOKEN": token}
    with pytest.raises(InvalidConnection, match="WHARFINGER_TOKEN") as refused:
        find_connection(environ=environ)
    assert token not in refused.value.message


def test_the_token_is_not_shown(environ: dict[str, str]) -> None:
    write_connection("http://127.0.0.1:1", "secret", environ)
    assert "secret" not in repr(find_connection(environ=environ))
