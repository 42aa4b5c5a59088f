"""The client against registries that misbehave, each in a named way."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from rig.certificates import loopback_tls
from rig.images import DOCKER_LIST, DOCKER_MANIFEST, OCI_INDEX, OCI_MANIFEST, digest
from rig.odd_registry import (
    Handler,
    OddRegistry,
    answer,
    chunked,
    endless,
    first,
    gzipped,
    image_manifest,
    redirect,
    silent,
)
from yarl import URL

from wharfinger.domain.failures import FailureError
from wharfinger.domain.platforms import Platform
from wharfinger.domain.references import Reference
from wharfinger.registry.client import RegistryClient
from wharfinger.registry.connection import RegistryConnection
from wharfinger.registry.images import ResolvedImage
from wharfinger.registry.tokens import SignIn
from wharfinger.registry.transport import Limits, Transport

AMD64 = Platform("linux", "amd64")
BASIC = "Basic " + base64.b64encode(b"alice:s3cret-word").decode()


@pytest.fixture
async def odd() -> AsyncIterator[OddRegistry]:
    async with OddRegistry() as running:
        yield running


@pytest.fixture
async def elsewhere() -> AsyncIterator[OddRegistry]:
    """Another origin: the same host, another port."""
    async with OddRegistry() as running:
        yield running


@pytest.fixture
async def client() -> AsyncIterator[RegistryClient]:
    limits = Limits(read=0.5, resolve=5, check=2, tries=2, tries_seconds=1, first_wait=0.01)
    async with RegistryClient(limits) as opened:
        yield opened


def alice(odd: OddRegistry) -> RegistryConnection:
    return RegistryConnection(odd.host, odd.url, "alice", "s3cret-word")


async def resolve(
    client: RegistryClient, odd: OddRegistry, name: str = "app:v1", **options: Any
) -> ResolvedImage:
    reference = Reference.parse(f"{odd.host}/{name}")
    return await client.resolve(reference, alice(odd), **options)


async def refusal(
    client: RegistryClient, odd: OddRegistry, name: str = "app:v1", **options: Any
) -> FailureError:
    with pytest.raises(FailureError) as caught:
        await resolve(client, odd, name, **options)
    shown = json.dumps(caught.value.to_json()) + repr(caught.value)
    assert "s3cret-word" not in shown
    assert BASIC.removeprefix("Basic ") not in shown
    return caught.value


# Documents


@pytest.mark.parametrize(
    "config",
    [answer(b"", status=404), answer(b"{}"), answer(b"", status=500), silent(), endless()],
)
async def test_a_config_that_nobody_needs_to_pull_fails_nothing(
    client: RegistryClient, odd: OddRegistry, config: Handler
) -> None:
    document = image_manifest(b"config")
    odd.on(f"/v2/app/blobs/{digest(b'config')}", config)
    root = odd.manifest("app", "amd64", document)
    entry = {"mediaType": OCI_MANIFEST, "digest": root, "size": 1}
    platform = {"platform": {"os": "linux", "architecture": "amd64"}}
    odd.manifest("app", "v1", {"mediaType": OCI_INDEX, "manifests": [entry | platform]})

    (image,) = (await resolve(client, odd, hosts=[AMD64])).platforms

    assert (image.manifest_digest, image.diff_ids, image.labels) == (root, (), ())


@pytest.mark.parametrize("handler", [gzipped, chunked])
async def test_encodings_are_undone_before_the_digest_is_taken(
    client: RegistryClient, odd: OddRegistry, handler: Any
) -> None:
    root = odd.image("app", "v1", handler)

    assert (await resolve(client, odd)).root_digest == root
    assert (await resolve(client, odd, f"app@{root}")).root_digest == root


async def test_all_types_are_asked_for_at_once_also_by_digest(
    client: RegistryClient, odd: OddRegistry
) -> None:
    root = odd.image("app", "v1", content_type="")

    await resolve(client, odd)
    await resolve(client, odd, f"app@{root}")

    (accepted,) = {asked.accept for asked in odd.requests("/manifests/")}
    for media_type in (DOCKER_MANIFEST, DOCKER_LIST, OCI_MANIFEST, OCI_INDEX):
        assert media_type in accepted


async def test_a_wrong_digest_header_is_corrupt_at_once(
    client: RegistryClient, odd: OddRegistry
) -> None:
    odd.image("app", "v1", Docker_Content_Digest="sha256:" + "1" * 64)

    assert (await refusal(client, odd)).code == "corrupt"
    assert len(odd.requests("/manifests/")) == 1


async def test_another_document_than_the_digest_asked_for_is_corrupt(
    client: RegistryClient, odd: OddRegistry
) -> None:
    wanted = "sha256:" + "2" * 64
    odd.on(f"/v2/app/manifests/{wanted}", answer(json.dumps(image_manifest(b"{}")).encode()))

    assert (await refusal(client, odd, f"app@{wanted}")).code == "corrupt"


@pytest.mark.parametrize("handler", [endless(), answer(b"[" + b" " * 4 * 1024 * 1024 + b"]")])
async def test_a_manifest_beyond_the_bound_is_refused_with_the_bound(
    client: RegistryClient, odd: OddRegistry, handler: Handler
) -> None:
    odd.on("/v2/app/manifests/v1", handler)

    refused = await refusal(client, odd)

    assert refused.code == "unsupported"
    assert "4,194,304" in refused.message
    assert len(odd.log) == 1


async def test_a_large_config_is_read_and_a_huge_one_refused_unread(
    client: RegistryClient, odd: OddRegistry
) -> None:
    large = json.dumps({"os": "linux", "architecture": "amd64", "x": "x" * 12_000_000}).encode()
    odd.on(f"/v2/app/blobs/{digest(large)}", answer(large))
    odd.manifest("app", "large", image_manifest(large))
    odd.manifest("app", "huge", image_manifest(b"{}", size=17 * 1024 * 1024))

    image = await resolve(client, odd, "app:large")
    refused = await refusal(client, odd, "app:huge")

    assert image.for_platform(AMD64) is not None
    assert len(json.dumps(image.to_json())) < 1000
    assert refused.code == "unsupported"
    assert "16,777,216" in refused.message


@pytest.mark.parametrize(
    "body", [b"<html>hello</html>", b"", b"[]", b"[" * 100_000, b'{"errors": []}\xff']
)
async def test_what_is_no_json_object_is_a_registry_error(
    client: RegistryClient, odd: OddRegistry, body: bytes
) -> None:
    odd.on("/v2/app/manifests/v1", answer(body, content_type="text/html"))

    assert (await refusal(client, odd)).code == "registry-error"


async def test_a_damaged_config_is_corrupt(client: RegistryClient, odd: OddRegistry) -> None:
    odd.manifest("app", "v1", image_manifest(b"{}"))
    odd.on(f"/v2/app/blobs/{digest(b'{}')}", answer(b"{ }"))

    assert (await refusal(client, odd)).code == "corrupt"


# Indexes


def nest(odd: OddRegistry, depth: int) -> str:
    """An index in an index, `depth` of them above one image; the outermost digest."""
    inner = odd.image("app", "image")
    media_type = OCI_MANIFEST
    for level in range(depth):
        entry = {
            "mediaType": media_type,
            "digest": inner,
            "size": 1,
            "platform": {"os": "linux", "architecture": "amd64"},
        }
        unknown = {"os": "unknown", "architecture": "unknown"}
        attestation = entry | {"digest": "sha256:" + "9" * 64, "platform": unknown}
        document = {"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": [entry, attestation]}
        inner = odd.manifest("app", f"nested-{level + 1}", document)
        media_type = OCI_INDEX
    return inner


async def test_an_index_in_an_index_is_followed_to_its_layers(
    client: RegistryClient, odd: OddRegistry
) -> None:
    outermost = nest(odd, 2)

    image = await resolve(client, odd, "app:nested-2")

    assert image.root_digest == outermost
    taken = image.for_platform(AMD64)
    assert taken is not None
    assert taken.size == 123
    assert image.available == (AMD64,)


async def test_indexes_nested_beyond_reason_are_refused_with_the_depth(
    client: RegistryClient, odd: OddRegistry
) -> None:
    nest(odd, 10)

    refused = await refusal(client, odd, "app:nested-10")

    assert refused.code == "unsupported"
    assert "more than 5 deep" in refused.message
    assert len(odd.log) <= 6


async def test_a_wide_index_costs_one_manifest_and_its_config_per_host(
    client: RegistryClient, odd: OddRegistry
) -> None:
    wanted = odd.image("app", "image")
    entries = [
        {
            "mediaType": OCI_MANIFEST,
            "digest": f"sha256:{number:064x}",
            "size": 1,
            "platform": {"os": "linux", "architecture": f"odd{number}"},
        }
        for number in range(3000)
    ]
    entries[1500] |= {"digest": wanted, "platform": {"os": "linux", "architecture": "amd64"}}
    odd.manifest("app", "v1", {"mediaType": OCI_INDEX, "manifests": entries})

    image = await resolve(client, odd, hosts=[AMD64, Platform("linux", "arm64")])

    assert [each.manifest_digest for each in image.platforms] == [wanted]
    assert len(image.available) == 3000
    assert len(odd.log) == 3


async def test_an_entry_the_registry_lacks_is_left_out_while_others_remain(
    client: RegistryClient, odd: OddRegistry
) -> None:
    present = {
        "mediaType": OCI_MANIFEST,
        "digest": odd.image("app", "image"),
        "size": 1,
        "platform": {"os": "linux", "architecture": "amd64"},
    }
    absent = present | {
        "digest": "sha256:" + "8" * 64,
        "platform": {"os": "linux", "architecture": "arm64"},
    }
    odd.manifest("app", "some", {"mediaType": OCI_INDEX, "manifests": [absent, present]})
    odd.manifest("app", "none", {"mediaType": OCI_INDEX, "manifests": [absent]})

    assert (await resolve(client, odd, "app:some")).available == (AMD64,)
    assert (await refusal(client, odd, "app:none")).code == "corrupt"


# Redirects


async def test_redirects_are_followed_without_the_password_elsewhere(
    client: RegistryClient, odd: OddRegistry, elsewhere: OddRegistry
) -> None:
    odd.challenges, odd.admits = ["Basic realm=x"], {BASIC}
    config = json.dumps({"os": "linux", "architecture": "amd64"}).encode()
    odd.manifest("app", "v1", image_manifest(config))
    odd.on("/v2/app/manifests/moved", redirect("/v2/app/manifests/v1"))
    odd.on(f"/v2/app/blobs/{digest(config)}", redirect(f"{elsewhere.url}/storage?sig=a%2Fb%3D"))
    elsewhere.on("/storage", answer(config))

    await resolve(client, odd, "app:moved")

    (stored,) = elsewhere.log
    assert stored.authorization == ""
    assert stored.path == "/storage?sig=a%2Fb%3D"
    assert odd.requests("/manifests/v1")[-1].authorization == BASIC


async def test_a_redirect_in_circles_ends_after_ten_requests(
    client: RegistryClient, odd: OddRegistry
) -> None:
    odd.on("/v2/app/manifests/v1", redirect("/v2/app/manifests/v1"))

    assert (await refusal(client, odd)).code == "registry-error"
    assert len(odd.log) == 10


@pytest.mark.parametrize(
    "location", ["", "ftp://h/x", "http://h:1:2/", "http://169.254.169.254/latest"]
)
async def test_a_senseless_redirect_is_a_registry_error(
    client: RegistryClient, odd: OddRegistry, location: str
) -> None:
    odd.on("/v2/app/manifests/v1", redirect(location))

    assert (await refusal(client, odd)).code == "registry-error"


# Refusals


@pytest.mark.parametrize(
    ("status", "code", "failure"),
    [
        (403, "DENIED", "auth"),
        (403, "", "auth"),
        (401, "UNAUTHORIZED", "auth"),
        (404, "DENIED", "auth"),
        (404, "NAME_UNKNOWN", "not-found"),
        (404, "", "not-found"),
        (400, "NAME_INVALID", "registry-error"),
        (500, "UNKNOWN", "registry-error"),
        (503, "", "registry-error"),
        (429, "", "rate-limited"),
        (403, "TOOMANYREQUESTS", "rate-limited"),
    ],
)
async def test_a_refusal_is_classed_by_its_codes_before_its_status(
    client: RegistryClient, odd: OddRegistry, status: int, code: str, failure: str
) -> None:
    body = json.dumps({"errors": [{"code": code, "message": "odd s3cret-word"}]}).encode()
    odd.on("/v2/app/manifests/v1", answer(body, status=status))

    refused = await refusal(client, odd)

    assert refused.code == failure
    assert "odd ***" in refused.failure.detail
    if failure == "auth":
        assert "no access, or there is no such repository" in refused.message


async def test_what_passes_is_tried_again(client: RegistryClient, odd: OddRegistry) -> None:
    root = odd.image("app", "v1")
    served = answer(json.dumps(image_manifest(json.dumps({}).encode())).encode())
    odd.on("/v2/flaky/manifests/v1", first(answer(b"", status=503), served))
    odd.on(f"/v2/flaky/blobs/{digest(b'{}')}", first(answer(b"", status=429), answer(b"{}")))

    assert (await resolve(client, odd, "flaky:v1")).root_digest != root
    assert len(odd.log) == 4


async def test_a_wish_to_wait_long_is_passed_on_at_once(
    client: RegistryClient, odd: OddRegistry
) -> None:
    odd.on("/v2/app/manifests/v1", answer(b"", status=429, Retry_After="120"))

    refused = await refusal(client, odd)

    assert refused.failure.retry_after == 120
    assert "120 s" in refused.message
    assert len(odd.log) == 1


async def test_silence_is_a_network_failure(client: RegistryClient, odd: OddRegistry) -> None:
    odd.on("/v2/app/manifests/v1", silent())

    assert (await refusal(client, odd)).code == "network"


# Signing in


def guard(odd: OddRegistry, challenge: str, token: str = "t0ken") -> None:
    odd.image("app", "v1")
    odd.challenges, odd.admits = [challenge.format(url=odd.url)], {f"Bearer {token}"}


BEARER = 'Bearer realm="{url}/token",service="odd",scope="repository:app:pull"'
TOKEN = answer(b'{"token": "t0ken"}')


@pytest.mark.parametrize(
    "challenges",
    [
        [BEARER],
        ["Basic realm=x, " + BEARER],
        [BEARER + ', Basic realm="x, y"'],
        ["Basic realm=x", BEARER],
        [BEARER.replace("Bearer", "bearer").replace("realm", "REALM")],
        [BEARER.replace("odd", "odd, and more")],
        ["Negotiate abc==, " + BEARER],
    ],
)
async def test_tokens_are_fetched_whatever_the_challenge_looks_like(
    client: RegistryClient, odd: OddRegistry, challenges: list[str]
) -> None:
    guard(odd, BEARER)
    odd.challenges = [each.format(url=odd.url) for each in challenges]
    odd.on("/token", TOKEN)

    await client.check(alice(odd))
    await resolve(client, odd)

    asked = odd.requests("/token")
    assert {each.authorization for each in asked} == {BASIC}
    assert len(asked) == 2


@pytest.mark.parametrize(
    "body",
    [
        {"token": "t0ken"},
        {"access_token": "t0ken"},
        {"token": "", "access_token": "t0ken"},
        {"token": "t0ken", "expires_in": "now"},
        {"token": "t0ken", "expires_in": "300"},
        {"token": "t0ken", "expires_in": 0},
        {"token": "t0ken", "expires_in": None},
        {"token": "t0ken", "expires_in": [1e999]},
        {"token": "t0ken", "padding": "x" * 20_000},
    ],
)
async def test_a_token_is_kept_whatever_surrounds_it(
    client: RegistryClient, odd: OddRegistry, body: dict[str, Any]
) -> None:
    guard(odd, BEARER)
    odd.on("/token", answer(json.dumps(body).encode()))

    await resolve(client, odd)
    await resolve(client, odd)

    assert len(odd.requests("/token")) == 1


@pytest.mark.parametrize(
    ("stated", "seconds"), [(None, 60), (5, 5), ("90", 90), ("now", 60), (0, 60), (-1, 60)]
)
async def test_a_token_is_shown_while_it_lasts(
    odd: OddRegistry, stated: int | str | None, seconds: float
) -> None:
    guard(odd, BEARER)
    odd.on("/token", answer(json.dumps({"token": "t0ken", "expires_in": stated}).encode()))
    transport = Transport(Limits())
    time = 1000.0
    sign_in = SignIn(transport, clock=lambda: time)
    refused = await transport.get(URL(f"{odd.url}/v2/"), asked="odd", size_limit=1000)

    assert await sign_in.renew(alice(odd), "scope", refused, None) == "Bearer t0ken"
    time += seconds - 0.1
    assert sign_in.known(alice(odd), "scope") == "Bearer t0ken"
    time += 0.2
    assert sign_in.known(alice(odd), "scope") is None
    await transport.close()


async def test_many_at_once_share_one_token(client: RegistryClient, odd: OddRegistry) -> None:
    guard(odd, BEARER)
    odd.on("/token", TOKEN)

    await asyncio.gather(*(resolve(client, odd) for _ in range(10)))

    assert len(odd.requests("/token")) == 1


@pytest.mark.parametrize("status", [401, 400])
async def test_a_token_that_worked_before_is_renewed_once(
    client: RegistryClient, odd: OddRegistry, status: int
) -> None:
    guard(odd, BEARER)
    odd.on("/token", first(TOKEN, answer(b'{"token": "t1ken"}')))
    await resolve(client, odd)

    odd.admits = {"Bearer t1ken"}
    if status == 400:
        odd.challenges = ()
        denied = answer(b'{"errors": [{"code": "DENIED"}]}', status=400)
        body = answer(json.dumps(image_manifest(b"{}")).encode())
        odd.on(f"/v2/app/blobs/{digest(b'{}')}", answer(b"{}"))
        odd.on("/v2/app/manifests/v1", first(denied, body))
    await resolve(client, odd)

    assert len(odd.requests("/token")) == 2


async def test_a_service_that_takes_only_posts_is_posted_to(
    client: RegistryClient, odd: OddRegistry
) -> None:
    guard(odd, BEARER)

    async def token(request: web.BaseRequest) -> web.StreamResponse:
        if request.method != "POST":
            return web.Response(status=405)
        form = await request.post()
        assert form["grant_type"] == "password"
        assert form["password"] == "s3cret-word"
        return web.json_response({"access_token": "t0ken"})

    odd.on("/token", token)

    await resolve(client, odd)


@pytest.mark.parametrize(
    ("challenge", "says"),
    [
        ('Bearer service="odd"', "is missing"),
        ('Bearer realm="/token"', "is not a URL to ask"),
        ('Bearer realm="http://h:1:2/token"', "'http://h:1:2/token'"),
        ('Bearer realm="http://169.254.169.254/token"', "link-local"),
        ('Bearer realm="http://[fe80::1]/token"', "link-local"),
        ('Bearer realm="http://u:p@h/token"', "of its own"),
    ],
)
async def test_a_broken_realm_is_quoted_as_the_registrys_own_setting(
    client: RegistryClient, odd: OddRegistry, challenge: str, says: str
) -> None:
    guard(odd, challenge)

    refused = await refusal(client, odd)

    assert refused.code == "registry-error"
    assert says in refused.message
    assert "the registry's own setting is wrong" in refused.message
    assert len(odd.log) == 1


@pytest.mark.parametrize(
    "body", [b"<html>sign in</html>", b'{"tok": 1}', b"[]", b'{"token": "a\\n"}']
)
async def test_a_service_without_a_token_is_a_registry_error(
    client: RegistryClient, odd: OddRegistry, body: bytes
) -> None:
    guard(odd, BEARER)
    odd.on("/token", answer(body, content_type="text/html"))

    refused = await refusal(client, odd)

    assert refused.code == "registry-error"
    assert f"{odd.url}/token" in refused.message


async def test_a_dead_token_service_is_a_network_failure(
    client: RegistryClient, odd: OddRegistry
) -> None:
    guard(odd, 'Bearer realm="http://127.0.0.1:9/token"')

    refused = await refusal(client, odd)

    assert refused.code == "network"
    assert "http://127.0.0.1:9/token" in refused.message


async def test_the_token_service_may_live_elsewhere_but_may_not_redirect_there(
    client: RegistryClient, odd: OddRegistry, elsewhere: OddRegistry
) -> None:
    guard(odd, f'Bearer realm="{elsewhere.url}/token"')
    elsewhere.on("/token", TOKEN)
    await resolve(client, odd)
    elsewhere.log.clear()

    guard(odd, BEARER, "other")
    odd.on("/token", redirect(f"{elsewhere.url}/deny"))
    elsewhere.on("/deny", answer(b"", status=401))
    refused = await refusal(client, odd)

    assert refused.code == "registry-error"
    assert "redirects to" in refused.message
    assert [asked.authorization for asked in elsewhere.log] == [""]


async def test_a_plain_realm_of_an_https_registry_is_never_asked(
    elsewhere: OddRegistry, tmp_path: Path
) -> None:
    shown, trusting = loopback_tls(tmp_path)
    async with OddRegistry(shown) as secure, RegistryClient(tls=trusting) as client:
        guard(secure, f'Bearer realm="{elsewhere.url}/token"')
        elsewhere.on("/token", TOKEN)

        refused = await refusal(client, secure)

    assert refused.code == "registry-error"
    assert "plain http" in refused.message
    assert elsewhere.log == []


async def test_a_certificate_nobody_trusts_is_a_network_failure(
    client: RegistryClient, tmp_path: Path
) -> None:
    shown, _ = loopback_tls(tmp_path)
    async with OddRegistry(shown) as secure:
        refused = await refusal(client, secure)

    assert refused.code == "network"
    assert "no trusted TLS connection" in refused.message


async def test_a_password_is_never_shown_by_a_connection() -> None:
    assert "word" not in repr(RegistryConnection("h", "http://h", "alice", "word"))
