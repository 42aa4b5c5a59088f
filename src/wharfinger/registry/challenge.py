"""Reading `WWW-Authenticate` (RFC 9110, section 11.6.1) as registries really write it."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_WORD = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_ITEM = re.compile(
    rf"""[\s,]*(?:
        (?P<key>{_WORD})\s*=\s*(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<plain>[^\s,"]+))
        |
        (?P<scheme>{_WORD})(?=[\s,]|\Z)(?!\s*=)(?:[ ]+[A-Za-z0-9._~+/-]+=*(?=\s*(?:,|\Z)))?
    )""",
    re.VERBOSE,
)
_ESCAPED = re.compile(r"\\(.)")


@dataclass(frozen=True, slots=True)
class Challenge:
    """One way to sign in that a server offers. `scheme` is in lower case: `basic`, `bearer`."""

    scheme: str
    realm: str = ""
    service: str = ""
    scope: str = ""


def parse_challenges(headers: Iterable[str]) -> list[Challenge]:
    """Every challenge of one or more `WWW-Authenticate` values, in order.

    Several may share a line; keys come in any case; commas inside quotes are kept. What cannot be
    read ends its line.
    """
    return [challenge for header in headers for challenge in _challenges(header)]


def _challenges(header: str) -> Iterator[Challenge]:
    scheme, values = "", dict[str, str]()
    position = 0
    while item := _ITEM.match(header, position):
        position = item.end()
        if item["scheme"]:
            if scheme:
                yield _challenge(scheme, values)
            scheme, values = item["scheme"].lower(), {}
        else:
            quoted = item["quoted"]
            value = item["plain"] if quoted is None else _ESCAPED.sub(r"\1", quoted)
            values.setdefault(item["key"].lower(), value)
    if scheme:
        yield _challenge(scheme, values)


def _challenge(scheme: str, values: dict[str, str]) -> Challenge:
    known = {key: values.get(key, "") for key in ("realm", "service", "scope")}
    return Challenge(scheme, **known)
