"""Where the manager is, and the token to speak to it with."""

import ipaddress
import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, urlsplit

from wharfinger.client.errors import InvalidConnection, NotConfigured

URL_VARIABLE: Final = "WHARFINGER_URL"
TOKEN_VARIABLE: Final = "WHARFINGER_TOKEN"  # noqa: S105  # the name of a variable
_PORTS: Final = {"http": 80, "https": 443}
_OTHERS_MAY: Final = 0o077


@dataclass(frozen=True, slots=True)
class Connection:
    """`url` has no trailing slash. `warning` is a sentence for the person, or empty.

    `file` is the one that `url` was read from, if it was.
    """

    url: str
    token: str | None = field(default=None, repr=False)
    warning: str = ""
    file: Path | None = None


def connection_file(environ: Mapping[str, str] = os.environ) -> Path:
    """`wharfinger/client.json` in the user's config folder (XDG base directories)."""
    base = environ.get("XDG_CONFIG_HOME", "")
    folder = Path(base) if base.startswith("/") else Path.home() / ".config"
    return folder / "wharfinger" / "client.json"


def find_connection(url: str | None = None, environ: Mapping[str, str] = os.environ) -> Connection:
    """From `url`, else the environment, else the file that `wharfinger up` wrote.

    The file's token is used only for the file's own server. Raises `NotConfigured`,
    `InvalidConnection`.
    """
    url = url or environ.get(URL_VARIABLE) or None
    token = _checked_token(environ.get(TOKEN_VARIABLE))
    if url and token:
        return Connection(_checked(url), token)
    path = connection_file(environ)
    stored = _read(path)
    if url is None:
        if stored is None:
            raise NotConfigured
        return replace(stored, token=token or stored.token)
    url = _checked(url)
    if stored is None or not _same_server(url, stored.url):
        return Connection(url, token)
    return Connection(url, stored.token, stored.warning)


def last_connection(environ: Mapping[str, str] = os.environ) -> Connection | None:
    """What the file holds, or None where there is none that can be read."""
    try:
        return _read(connection_file(environ))
    except InvalidConnection:
        return None


def write_connection(url: str, token: str, environ: Mapping[str, str] = os.environ) -> Path:
    """Write the file that `find_connection` reads, for its owner alone, whole or not at all."""
    path = connection_file(environ)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_private(path, json.dumps({"url": _checked(url), "token": token}, indent=2) + "\n")
    return path


def write_private(path: Path, text: str) -> None:
    """Write a file for its owner alone (0600), whole or not at all."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        opened = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(opened, "w", encoding="utf-8") as file:
            file.write(text)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def _read(path: Path) -> Connection | None:
    try:
        with path.open(encoding="utf-8") as file:
            readable = os.fstat(file.fileno()).st_mode & _OTHERS_MAY
            stored = json.load(file)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise InvalidConnection(f"{path} cannot be read: {error}") from error
    match stored:
        case {"url": str(url), "token": str(token)}:
            warning = (
                f"{path} holds a token and others may read it; close it with: chmod 600 {path}"
                if readable
                else ""
            )
            return Connection(_checked(url), _checked_token(token), warning, path)
        case _:
            raise InvalidConnection(f'{path} does not hold {{"url", "token"}}')


def _checked(url: str) -> str:
    try:
        parts = urlsplit(url)
        usable = (
            parts.scheme in _PORTS
            and parts.hostname
            and parts.port != 0
            and url.isprintable()
            and not {"@", "?", "#", " "} & set(url)
        )
    except ValueError:
        usable = False
    if not usable:
        raise InvalidConnection(
            f"{url!r} is not the URL of a manager; one looks like http://127.0.0.1:8080"
        )
    return url.rstrip("/")


def _checked_token(token: str | None) -> str | None:
    """A header carries printable ASCII alone."""
    if token and not (token.isascii() and token.isprintable()):
        raise InvalidConnection(
            f"the token holds characters that none has: see {TOKEN_VARIABLE}, or the file it is in"
        )
    return token or None


def _same_server(one: str, other: str) -> bool:
    a, b = urlsplit(one), urlsplit(other)
    if (a.scheme, _port(a), a.path) != (b.scheme, _port(b), b.path):
        return False
    return a.hostname == b.hostname or (_is_loopback(a) and _is_loopback(b))


def _port(parts: SplitResult) -> int:
    return parts.port or _PORTS[parts.scheme]


def _is_loopback(parts: SplitResult) -> bool:
    host = parts.hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
