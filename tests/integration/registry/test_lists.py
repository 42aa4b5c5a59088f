"""Reading what registries list, page by page, from registries that do it each in its own way."""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import pytest
from aiohttp import web
from rig.odd_registry import Handler, OddRegistry, answer, endless, silent

from wharfinger.domain.failures import FailureError
from wharfinger.domain.references import Reference
from wharfinger.registry import pages
from wharfinger.registry.client import RegistryClient
from wharfinger.registry.connection import RegistryConnection
from wharfinger.registry.transport import Limits

TAGS = [f"v{number:02}" for number in range(25)]
LIST = "/v2/app/tags/list"


@pytest.fixture
async def odd() -> AsyncIterator[OddRegistry]:
    async with OddRegistry() as running:
        yield running


@pytest.fixture
async def client(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RegistryClient]:
    monkeypatch.setattr(pages, "PAGE_SIZE", 10)
    limits = Limits(read=0.5, resolve=5, tries=2, tries_seconds=1, first_wait=0.01)
    async with RegistryClient(limits) as opened:
        yield opened


def listing(link: str | None = None, *, size: int | None = None) -> Handler:
    """Pages of TAGS after `last`; each but the last has `link`, with `{last}` filled in."""

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        last = request.query.get("last", "")
        left = [tag for tag in TAGS if tag > last]
        page = left[: size or int(request.query["n"])]
        more = link is not None and len(page) < len(left)
        headers = {"Link": (link or "").format(last=page[-1])} if more else {}
        return web.json_response({"name": "app", "tags": page}, headers=headers)

    return handler


async def tags(client: RegistryClient, odd: OddRegistry) -> list[Sequence[str]]:
    alice = RegistryConnection(odd.host, odd.url, "alice", "s3cret-word")
    return [page async for page in client.tags(alice, "app")]


@pytest.mark.parametrize(
    "link",
    [
        '</v2/app/tags/list?n=10&last={last}>; rel="next"',
        "<?last={last}&n=10>;rel=next",
        '<https://else.where.test/v2/other/tags/list?n=10&last={last}>; rel="next"',
        '</v2/?x=1>; rel="first", </v2/app/tags/list?last={last}&n=10>; title="a"; rel="next"',
    ],
)
async def test_pages_are_followed_by_the_query_of_their_link_alone(
    client: RegistryClient, odd: OddRegistry, link: str
) -> None:
    odd.on(LIST, listing(link))

    assert await tags(client, odd) == [TAGS[:10], TAGS[10:20], TAGS[20:]]
    assert {asked.path.partition("?")[0] for asked in odd.log} == {LIST}


async def test_smaller_pages_than_asked_for_are_followed_by_their_links(
    client: RegistryClient, odd: OddRegistry
) -> None:
    odd.on(LIST, listing("<?last={last}>; rel=next", size=4))

    assert [tag for page in await tags(client, odd) for tag in page] == TAGS


async def test_without_links_full_pages_are_followed_by_their_last_name(
    client: RegistryClient, odd: OddRegistry
) -> None:
    odd.on(LIST, listing())

    assert await tags(client, odd) == [TAGS[:10], TAGS[10:20], TAGS[20:]]


async def test_a_registry_without_pages_is_asked_once_more_at_most(
    client: RegistryClient, odd: OddRegistry
) -> None:
    odd.on(LIST, answer(json.dumps({"tags": TAGS[:10]}).encode()))
    assert await tags(client, odd) == [TAGS[:10]]
    assert len(odd.log) == 2

    odd.on(LIST, answer(json.dumps({"tags": TAGS}).encode()))
    assert await tags(client, odd) == [TAGS]
    assert len(odd.log) == 3


async def test_what_is_no_name_does_not_end_a_list(
    client: RegistryClient, odd: OddRegistry
) -> None:
    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        page = ["v99"] if "last" in request.query else [None, *TAGS[:9]]
        return web.json_response({"tags": page})

    odd.on(LIST, handler)

    assert await tags(client, odd) == [TAGS[:9], ["v99"]]


@pytest.mark.parametrize("document", [{"tags": None}, {"tags": []}, {"tags": [1, None, {}]}])
async def test_an_empty_list_has_no_pages(
    client: RegistryClient, odd: OddRegistry, document: Mapping[str, Any]
) -> None:
    odd.on(LIST, answer(json.dumps(document).encode()))

    assert await tags(client, odd) == []


@pytest.mark.parametrize("turn", [1, 2, 3, 7])
async def test_pages_that_go_round_in_circles_are_no_list(
    client: RegistryClient, odd: OddRegistry, turn: int
) -> None:
    async def circle(request: web.BaseRequest) -> web.StreamResponse:
        at = (int(request.query.get("at", -1)) + 1) % turn
        return web.json_response({"tags": ["a"]}, headers={"Link": f"<?at={at}>; rel=next"})

    odd.on(LIST, circle)

    with pytest.raises(FailureError, match="round in circles") as caught:
        await tags(client, odd)
    assert caught.value.code == "registry-error"
    assert len(odd.log) < 4 * turn + 4


async def test_pages_that_never_end_are_no_list(
    client: RegistryClient, odd: OddRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def on_and_on(request: web.BaseRequest) -> web.StreamResponse:
        at = int(request.query.get("at", 0)) + 1
        return web.json_response({"tags": [f"v{at}"]}, headers={"Link": f"<?at={at}>; rel=next"})

    monkeypatch.setattr(pages, "PAGES_LIMIT", 50)
    odd.on(LIST, on_and_on)

    with pytest.raises(FailureError, match="does not end after 50 pages"):
        await tags(client, odd)


@pytest.mark.parametrize(
    ("handler", "code"),
    [
        (answer(b"<html>"), "registry-error"),
        (answer(b"[]"), "registry-error"),
        (answer(b"{}"), "registry-error"),
        (answer(b'{"tags": "v1"}'), "registry-error"),
        (answer(b"", status=405), "unsupported"),
        (answer(b"", status=404), "not-found"),
        (endless(), "unsupported"),
        (silent(), "network"),
    ],
)
async def test_what_is_no_list_is_classed(
    client: RegistryClient, odd: OddRegistry, handler: Handler, code: str
) -> None:
    odd.on(LIST, handler)

    with pytest.raises(FailureError) as caught:
        await tags(client, odd)
    assert caught.value.code == code
    assert "the tags of" in caught.value.message


async def digest(client: RegistryClient, odd: OddRegistry, known: str | None = None) -> str:
    connection = RegistryConnection(odd.host, odd.url)
    return await client.digest(Reference.parse(f"{odd.host}/app:v1"), connection, known)


@pytest.mark.parametrize("refused", [405, 501, 400])
async def test_where_head_tells_nothing_the_document_is_read(
    client: RegistryClient, odd: OddRegistry, refused: int
) -> None:
    root = odd.image("app", "v1")
    assert await digest(client, odd) == root
    assert [asked.method for asked in odd.log] == ["HEAD", "GET"]

    def refusing(raw: bytes, **options: Any) -> Handler:
        right = answer(raw, **options)

        async def handler(request: web.BaseRequest) -> web.StreamResponse:
            return (
                web.Response(status=refused) if request.method == "HEAD" else await right(request)
            )

        return handler

    assert odd.image("app", "v1", refusing) == root
    assert await digest(client, odd) == root


async def test_a_stated_digest_is_taken_without_reading_the_document(
    client: RegistryClient, odd: OddRegistry
) -> None:
    root = odd.image("app", "v1", Docker_Content_Digest="sha256:" + "a" * 64)

    assert await digest(client, odd, root) == "sha256:" + "a" * 64
    assert [asked.method for asked in odd.log] == ["HEAD"]


async def test_what_is_not_there_is_not_found_by_head(
    client: RegistryClient, odd: OddRegistry
) -> None:
    with pytest.raises(FailureError) as caught:
        await digest(client, odd)
    assert caught.value.code == "not-found"
