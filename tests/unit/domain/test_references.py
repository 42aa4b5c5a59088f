"""The grammar of references: listed cases, and properties over generated ones."""

import hashlib
import ipaddress
import re

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from wharfinger.domain.errors import InvalidReference
from wharfinger.domain.references import Reference, parse_host

SHA256 = "sha256:" + "0123456789abcdef" * 4
SHA512 = "sha512:" + "0123456789abcdef" * 8

# The grammar once more, as one regular expression in the order of the distribution project's
# own `reference/regexp.go`; what the domain narrows is narrowed in `agrees` below.
_LABEL = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_HOST = rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[a-fA-F0-9:]+\])"
_PART = r"[a-z0-9]+(?:(?:[._]|__|[-]+)[a-z0-9]+)*"
GRAMMAR = re.compile(
    rf"(?:(?P<host>{_HOST}(?::[0-9]+)?)/)?(?P<path>{_PART}(?:/{_PART})*)"
    r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?"
    r"(?:@(?P<digest>[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}))?"
)
DIGEST = re.compile(r"sha256:[0-9a-f]{64}|sha384:[0-9a-f]{96}|sha512:[0-9a-f]{128}")


def agrees(text: str) -> bool:
    """Whether this independent reading takes `text` for a reference."""
    match = GRAMMAR.fullmatch(text)
    if match is None or re.fullmatch("[0-9a-f]{64}", text):
        return False
    host, path = match["host"], match["path"]
    if host and not (set(host) & set(".:[") or host == "localhost"):
        host, path = None, f"{host}/{path}"
    host = (host or "docker.io").lower()
    host = {"index.docker.io": "docker.io"}.get(host, host)
    path = f"library/{path}" if host == "docker.io" and "/" not in path else path
    return (
        path == path.lower()
        and real_host(host)
        and (match["digest"] is None or DIGEST.fullmatch(match["digest"]) is not None)
        and len(f"{host}/{path}") <= 255
    )


def real_host(host: str) -> bool:
    """What the grammar leaves open: whether the port and the IPv6 address exist."""
    name, _, port = host.rpartition(":") if re.search(r":\d+\Z", host) else (host, "", None)
    if port is not None and not 0 < int(port) < 65536:
        return False
    if host.startswith("["):
        try:
            ipaddress.IPv6Address(name[1:-1])
        except ValueError:
            return False
        return port is not None
    return True


word = st.text("ab09", min_size=1, max_size=4)
part = st.builds(
    lambda first, rest: first + "".join(separator + each for separator, each in rest),
    word,
    st.lists(st.tuples(st.sampled_from([".", "_", "__", "-", "--", "-----"]), word), max_size=3),
)
label = st.from_regex(r"\A[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,4}[a-zA-Z0-9])?\Z")
host = st.one_of(
    st.just("localhost"),
    st.just("127.0.0.1"),
    st.lists(label, min_size=2, max_size=4).map(".".join),
)
port = st.integers(1, 65535)
registry = st.one_of(
    host,
    st.builds("{}:{}".format, st.one_of(host, label), port),
    st.builds(
        "[{}]:{}".format,
        # how an IPv4 address is embedded differs from one spelling to the next; the grammar has none
        st.ip_addresses(v=6).map(str).filter(lambda text: "." not in text),
        port,
    ),
)
path = st.lists(part, min_size=1, max_size=3).map("/".join)
tag = st.builds(
    "{}{}".format, st.sampled_from("aZ9_"), st.text("aZ9_.-", max_size=8) | st.just("." * 127)
)
digest = st.builds(
    lambda algorithm, raw: f"{algorithm}:{hashlib.new(algorithm, raw).hexdigest()}",
    st.sampled_from(["sha256", "sha384", "sha512"]),
    st.binary(max_size=4),
)
reference = st.builds(
    lambda registry, path, tag, digest: (
        f"{registry}/{path}" + (f":{tag}" if tag else "") + (f"@{digest}" if digest else "")
    ),
    registry,
    path,
    st.none() | tag,
    st.none() | digest,
)


@given(reference)
def test_every_reference_of_the_grammar_is_read(text: str) -> None:
    parsed = Reference.parse(text)

    assert parsed.tag or parsed.digest
    assert agrees(text)


@given(reference)
def test_a_normalised_reference_is_read_as_itself(text: str) -> None:
    parsed = Reference.parse(text)

    assert Reference.parse(str(parsed)) == parsed


@given(path, st.none() | tag)
def test_without_a_host_the_hub_is_meant(path: str, tag: str | None) -> None:
    first = path.partition("/")[0]
    assume("/" not in path or ("." not in first and first != "localhost"))
    assume(not re.fullmatch("[0-9a-f]{64}", path))
    text = f"{path}:{tag}" if tag else path

    parsed = Reference.parse(text)

    assert parsed.registry == "docker.io"
    assert parsed.repository == (path if "/" in path else f"library/{path}")
    assert (
        parsed == Reference.parse(f"docker.io/{text}") == Reference.parse(f"index.docker.io/{text}")
    )


@given(reference, st.data())
def test_an_illegal_character_anywhere_is_refused_at_its_place(
    text: str, data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(text)))
    illegal = data.draw(
        st.one_of(
            st.sampled_from(" \t\r\n!\"#$%&'()*,;<=>?\\^`{|}~"),
            st.characters(min_codepoint=0x80),
        )
    )

    with pytest.raises(InvalidReference) as caught:
        Reference.parse(text[:place] + illegal + text[place:])

    if illegal > "~" or illegal <= " ":
        assert caught.value.detail["position"] == place + 1


@given(st.text(alphabet="aA0._-/:@[]", max_size=24))
@example("a:b/c")
@example("localhost")
@example("a.b/")
@example("[::1]:1/a")
@example("a@a:" + "a" * 64)
def test_the_reader_and_an_independent_reading_agree(text: str) -> None:
    try:
        Reference.parse(text)
    except InvalidReference:
        assert not agrees(text)
    else:
        assert agrees(text)


@given(st.text(max_size=100).filter(lambda text: not agrees(text)))
def test_any_other_text_is_refused_with_words(text: str) -> None:
    with pytest.raises(InvalidReference) as caught:
        Reference.parse(text)

    assert caught.value.message.isprintable()
    assert 1 <= caught.value.detail["position"] <= len(text) + 1


@pytest.mark.parametrize(
    ("text", "normalised"),
    [
        ("busybox", "docker.io/library/busybox:latest"),
        ("library/busybox", "docker.io/library/busybox:latest"),
        ("docker.io/busybox:latest", "docker.io/library/busybox:latest"),
        ("index.docker.io/busybox", "docker.io/library/busybox:latest"),
        ("index.docker.io/library/busybox:1", "docker.io/library/busybox:1"),
        ("registry-1.docker.io/library/busybox", "registry-1.docker.io/library/busybox:latest"),
        ("docker.io:443/a", "docker.io:443/a:latest"),
        ("user/app", "docker.io/user/app:latest"),
        ("localhost/app", "localhost/app:latest"),
        ("localhost:5000/app:v1", "localhost:5000/app:v1"),
        ("registry:5000/app", "registry:5000/app:latest"),
        ("127.0.0.1:5000", "docker.io/library/127.0.0.1:5000"),
        ("[::1]:5992/odd/plain:v1", "[::1]:5992/odd/plain:v1"),
        ("[FE80::A]:80/a", "[fe80::a]:80/a:latest"),
        ("Example.COM/app", "example.com/app:latest"),
        ("h:1/a__b/c:v1", "h:1/a__b/c:v1"),
        ("h:1/a--b/c:v1", "h:1/a--b/c:v1"),
        ("h:1/a---b.c/d_e:v1", "h:1/a---b.c/d_e:v1"),
        ("h:1/a.b-c/9:v1", "h:1/a.b-c/9:v1"),
        ("h:1/tags/case:V1", "h:1/tags/case:V1"),
        ("h:1/tags/case:_x", "h:1/tags/case:_x"),
        ("a:" + "b" * 128, "docker.io/library/a:" + "b" * 128),
        (f"h:1/a@{SHA256}", f"h:1/a@{SHA256}"),
        (f"h:1/a:v1@{SHA256}", f"h:1/a:v1@{SHA256}"),
        (f"h:1/a@{SHA512}", f"h:1/a@{SHA512}"),
        ("h:00080/a", "h:80/a:latest"),
        ("h:1/" + "a" * 251, "h:1/" + "a" * 251 + ":latest"),
    ],
)
def test_spellings_are_normalised(text: str, normalised: str) -> None:
    assert str(Reference.parse(text)) == normalised


@pytest.mark.parametrize(
    ("text", "says", "position"),
    [
        ("", "it is empty", 1),
        (" a", "a space", 1),
        ("a\u00a0", "U+00A0", 2),
        ("\ufeffa", "U+FEFF", 1),
        ("a:v1\r", r"\r", 5),
        ("a\n", r"\n", 2),
        ("a:v\uff11", "(U+FF11)", 4),
        ("http://h/a", "leave out http://", 1),
        ("a" * 64, "this is an image id", 1),
        ("a___b", "'_'", 2),
        ("a..b", "'.'", 2),
        ("a_-b", "'_'", 2),
        ("-a", "'-'", 1),
        ("a-", "'-'", 2),
        ("a/", "empty", 3),
        ("//a", "empty", 1),
        ("/a", "empty", 1),
        ("A/b", "'A'", 1),
        ("h:1/App", "'A'", 5),
        ("a:", "the tag is empty", 3),
        ("a:.b", "'.'", 3),
        ("a:" + "b" * 129, "1 to 128", 131),
        ("a:b:c", "':'", 2),
        ("h:99999/a", "no such port", 3),
        ("h:0/a", "no such port", 3),
        ("h:/a", "the port is empty", 3),
        ("h:x/a", "'x'", 3),
        ("my_host.x/a", "'_'", 3),
        ("a" * 256, "at most 255", 256),
        ("h:1/" + "a" * 252, "at most 255", 256),
        ("[::1%lo]:5992/a", "without a zone", 5),
        ("::1:5992/a", "stands in brackets", 1),
        ("[::1]/a", "written with its port", 5),
        ("[::1]:99999/a", "no such port", 7),
        ("[::1]5992/a", "written with its port", 5),
        ("[::1:5992/a", "not closed", 1),
        ("[:::]:5992/a", "not an IPv6 address", 2),
        ("[]:1/a", "empty", 2),
        ("a@", "no known algorithm", 3),
        ("a@md5:" + "0" * 32, "sha256, sha384, sha512", 3),
        ("a@sha256:" + "0" * 63, "has 63 digits", 10),
        ("a@sha256:" + "A" * 64, "'A'", 10),
        (f"a@{SHA256}@b", "'@'", 74),
        (f"a@{SHA256}:b", "':'", 74),
    ],
)
def test_a_refusal_says_what_is_wrong_and_where(text: str, says: str, position: int) -> None:
    with pytest.raises(InvalidReference) as caught:
        Reference.parse(text)

    assert says in caught.value.message
    assert caught.value.detail["position"] == position
    assert caught.value.code == "invalid-reference"


def test_a_refusal_of_a_long_text_stays_short() -> None:
    with pytest.raises(InvalidReference) as caught:
        Reference.parse("A" * 100_000)

    assert len(caught.value.message) < 500


def test_a_pinned_name_has_the_digest_and_no_tag() -> None:
    assert Reference.parse("h:1/a:v1").pinned(SHA256) == f"h:1/a@{SHA256}"


@pytest.mark.parametrize(
    ("text", "host"),
    [("Docker.io", "docker.io"), ("[::1]:5992", "[::1]:5992"), ("r:05000", "r:5000")],
)
def test_a_host_alone_is_read_as_references_name_it(text: str, host: str) -> None:
    assert parse_host(text) == host


@pytest.mark.parametrize("text", ["", "a", "a/b", "a b", "[::1]", "a:b", "a:1:2"])
def test_what_is_no_host_is_refused(text: str) -> None:
    with pytest.raises(InvalidReference):
        parse_host(text)
