"""Image references in the grammar of the distribution project, normalised.

    reference := [host [":" port] "/"] path [":" tag] ["@" digest]

The first part of the path is a host when it has a `.` or a `:`, or is `localhost`. Without a host
the Docker Hub is meant (`busybox` is `docker.io/library/busybox:latest`), and `index.docker.io`
is an older name of it. Hosts are compared as DNS does: their upper case is lowered.

Narrower than that grammar, on purpose: ports are 1 to 65535, an IPv6 host has its port with it,
and digests are of the three algorithms that exist.
"""

import ipaddress
import re
from dataclasses import dataclass
from typing import Final, NoReturn

from wharfinger.domain.errors import InvalidReference

HUB: Final = "docker.io"
"""The host of every reference without one."""
DEFAULT_TAG: Final = "latest"
NAME_LIMIT: Final = 255
"""Characters of `host/path`: what the strictest engine takes."""
PORT_LIMIT: Final = 65535

_HUB_BEFORE: Final = "index.docker.io"
_HUB_OFFICIAL: Final = "library"
_DIGEST_DIGITS: Final = {"sha256": 64, "sha384": 96, "sha512": 128}
_SHOWN: Final = 160

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_IMAGE_ID = re.compile(r"[0-9a-f]{64}")
_ASCII = re.compile(r"[!-~]*")
_DOMAIN = re.compile(r"[A-Za-z0-9]+(?:-+[A-Za-z0-9]+)*(?:\.[A-Za-z0-9]+(?:-+[A-Za-z0-9]+)*)*")
_IPV6 = re.compile(r"[0-9A-Fa-f:]+")
_DIGITS = re.compile(r"[0-9]+")
_COMPONENT = re.compile(r"[a-z0-9]+(?:(?:__|[._]|-+)[a-z0-9]+)*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_HEX = re.compile(r"[0-9a-f]+")


@dataclass(frozen=True, slots=True)
class Reference:
    """`registry/repository[:tag][@digest]`, normalised. At least one of tag and digest is set."""

    registry: str
    """`host[:port]`: `docker.io`, `127.0.0.1:5000`, `[::1]:5992`."""
    repository: str
    """`library/busybox`."""
    tag: str | None
    digest: str | None

    @classmethod
    def parse(cls, text: str) -> "Reference":
        """Read any spelling people and engines use.

        Raises `InvalidReference`, whose message says what is wrong, where, and what is allowed;
        its detail has `reference` and `position` (from 1).
        """
        return _Reader(text).read()

    @property
    def name(self) -> str:
        """`registry/repository`."""
        return f"{self.registry}/{self.repository}"

    def pinned(self, digest: str) -> str:
        """`registry/repository@digest`: what an engine is asked to pull."""
        return f"{self.name}@{digest}"

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        digest = f"@{self.digest}" if self.digest else ""
        return f"{self.name}{tag}{digest}"


def parse_host(text: str) -> str:
    """`host[:port]` as references name a registry, normalised.

    Raises `InvalidReference`, also for what a reference would read as a part of its path.
    """
    reader = _Reader(text, "a registry's host", "host[:port]")
    reader.check_characters()
    if not _is_host(text):
        reader.refuse(0, "references take it for a part of a path", "a name with a '.' or a port")
    return reader.host(len(text))


class _Reader:
    """Reads one text; every part is named by where it begins and ends in it."""

    def __init__(
        self,
        text: str,
        what: str = "an image reference",
        shape: str = "host[:port]/path[:tag][@digest]",
    ) -> None:
        self._text = text
        self._what = what
        self._shape = shape

    def read(self) -> Reference:
        text = self._text
        self.check_characters()
        if scheme := _SCHEME.match(text):
            self.refuse(0, "a scheme is no part of a reference", f"leave out {scheme[0]}")
        if _IMAGE_ID.fullmatch(text):
            self.refuse(0, "this is an image id", "a reference names a repository")

        at = text.find("@")
        before_digest = len(text) if at < 0 else at
        colon = text.rfind(":", 0, before_digest)
        has_tag = colon > text.rfind("/", 0, before_digest)
        name_end = colon if has_tag else before_digest

        registry, repository = self._name(name_end)
        tag = self._tag(colon + 1, before_digest) if has_tag else None
        digest = self._digest(at + 1) if at >= 0 else None
        if tag is None and digest is None:
            tag = DEFAULT_TAG
        return Reference(registry, repository, tag, digest)

    def check_characters(self) -> None:
        """Only visible ASCII goes on; whatever lists and copied text bring along is shown."""
        if not self._text:
            self.refuse(0, "it is empty", self._shape)
        self._demand(_ASCII, 0, len(self._text), "it", "visible ASCII characters")

    def host(self, end: int) -> str:
        """The host and port that end at `end`."""
        text = self._text
        if text.startswith("["):
            return self._ipv6(end)
        if text.count(":", 0, end) > 1:
            self.refuse(0, "an IPv6 address stands in brackets", "[::1]:5000")
        colon = text.find(":", 0, end)
        name_end = colon if colon >= 0 else end
        self._demand(
            _DOMAIN, 0, name_end, "the host", "letters, digits and, between those, '.' and '-'"
        )
        name = text[:name_end].lower()
        return f"{name}:{self._port(colon + 1, end)}" if colon >= 0 else name

    def _name(self, end: int) -> tuple[str, str]:
        text = self._text
        slash = text.find("/", 0, end)
        if slash >= 0 and _is_host(text[:slash]):
            registry, path_start = self.host(slash), slash + 1
        else:
            registry, path_start = HUB, 0
        repository = self._path(path_start, end)
        if registry == _HUB_BEFORE:
            registry = HUB
        if registry == HUB and "/" not in repository:
            repository = f"{_HUB_OFFICIAL}/{repository}"
        length = len(registry) + 1 + len(repository)
        if length > NAME_LIMIT:
            self.refuse(
                end - 1,
                f"the name has {length} characters, host and path together",
                f"at most {NAME_LIMIT}",
            )
        return registry, repository

    def _ipv6(self, end: int) -> str:
        text = self._text
        bracket = text.find("]", 0, end)
        if bracket < 0:
            self.refuse(0, "the bracket of the IPv6 address is not closed", "[::1]:5000")
        self._demand(
            _IPV6, 1, bracket, "an IPv6 address", "hexadecimal digits and ':', without a zone"
        )
        try:
            ipaddress.IPv6Address(text[1:bracket])
        except ValueError:
            self.refuse(1, "this is not an IPv6 address", "[::1]:5000")
        if text[bracket + 1 : bracket + 2] != ":" or bracket + 1 >= end:
            self.refuse(bracket, "an IPv6 host is written with its port", "[::1]:5000")
        return f"{text[: bracket + 1].lower()}:{self._port(bracket + 2, end)}"

    def _port(self, start: int, end: int) -> int:
        self._demand(_DIGITS, start, end, "the port", "digits")
        digits = self._text[start:end].lstrip("0")
        if len(digits) > len(str(PORT_LIMIT)) or not 0 < int(digits or "0") <= PORT_LIMIT:
            self.refuse(start, "there is no such port", f"1 to {PORT_LIMIT}")
        return int(digits)

    def _path(self, start: int, end: int) -> str:
        component_start = start
        while True:
            slash = self._text.find("/", component_start, end)
            component_end = slash if slash >= 0 else end
            self._demand(
                _COMPONENT,
                component_start,
                component_end,
                "a part of the path",
                "lower-case letters and digits and, between those, '.', '_', '__' or dashes",
            )
            if slash < 0:
                return self._text[start:end]
            component_start = slash + 1

    def _tag(self, start: int, end: int) -> str:
        self._demand(
            _TAG,
            start,
            end,
            "the tag",
            "1 to 128 letters, digits, '_', '.' and '-', not beginning with '.' or '-'",
        )
        return self._text[start:end]

    def _digest(self, start: int) -> str:
        text = self._text
        colon = text.find(":", start)
        algorithm = text[start:colon] if colon >= 0 else text[start:]
        if colon < 0 or algorithm not in _DIGEST_DIGITS:
            self.refuse(
                start, "the digest names no known algorithm", ", ".join(_DIGEST_DIGITS) + " and ':'"
            )
        wanted = _DIGEST_DIGITS[algorithm]
        allowed = f"{wanted} lower-case hexadecimal digits"
        self._demand(_HEX, colon + 1, len(text), "the digest", allowed)
        if (count := len(text) - colon - 1) != wanted:
            self.refuse(colon + 1, f"the digest has {count} digits", allowed)
        return text[start:]

    def _demand(
        self, pattern: re.Pattern[str], start: int, end: int, part: str, allowed: str
    ) -> None:
        """Refuse unless `pattern` reaches from `start` to `end`; else show what it stumbles on."""
        if start == end:
            self.refuse(start, f"{part} is empty", allowed)
        match = pattern.match(self._text, start, end)
        reached = match.end() if match else start
        if reached < end:
            stumbled = _visible(self._text[reached])
            self.refuse(reached, f"{part} cannot go on with {stumbled}", allowed)

    def refuse(self, index: int, wrong: str, allowed: str) -> NoReturn:
        """Raise, with the character at `index` as the place."""
        text = self._text
        shown = "".join(_visible(each, inline=True) for each in text[:_SHOWN])
        more = "…" if len(text) > _SHOWN else ""
        position = index + 1
        raise InvalidReference(
            f'"{shown}{more}" is not {self._what}: {wrong}, at position {position};'
            f" allowed: {allowed}",
            reference=f"{shown}{more}",
            position=position,
        )


def _is_host(part: str) -> bool:
    return "." in part or ":" in part or part.startswith("[") or part == "localhost"


def _visible(character: str, *, inline: bool = False) -> str:
    """The character such that nobody overlooks it: an escape, or its code where it has one."""
    if character == " ":
        return character if inline else "a space"
    if "!" <= character <= "~":
        return character if inline else f"'{character}'"
    if character in "\t\n\r":
        return repr(character)[1:-1]
    code = f"U+{ord(character):04X}"
    if inline:
        return character if character.isprintable() else f"<{code}>"
    return f"'{character}' ({code})" if character.isprintable() else code
