"""The client against the real docker-registry: open, with passwords, with tokens."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from rig.images import (
    DOCKER_LIST,
    DOCKER_MANIFEST,
    OCI_INDEX,
    OCI_MANIFEST,
    layer,
    push,
    push_index,
    random_layer,
)
from rig.registry import Registry
from rig.token_server import TokenServer

from wharfinger.domain.failures import FailureClass, FailureError
from wharfinger.domain.platforms import Platform
from wharfinger.domain.progress import Layer
from wharfinger.domain.references import Reference
from wharfinger.registry.client import RegistryClient
from wharfinger.registry.connection import RegistryConnection
from wharfinger.registry.images import ResolvedImage
from wharfinger.registry.transport import Limits

ALICE = ("alice", "s3cret word")
AMD64 = Platform("linux", "amd64")
ARM64 = Platform("linux", "arm64")


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    with Registry(tmp_path / "registry") as running:
        yield running


@pytest.fixture
async def client() -> AsyncIterator[RegistryClient]:
    async with RegistryClient(Limits(tries=2, tries_seconds=1, first_wait=0.01)) as opened:
        yield opened


def connection(registry: Registry, user: tuple[str, str] | None = None) -> RegistryConnection:
    name, password = user or (None, None)
    return RegistryConnection(registry.host, f"http://{registry.host}", name, password)


@pytest.mark.parametrize("oci", [False, True])
async def test_a_tag_becomes_the_digest_and_the_layers_of_its_manifest(
    registry: Registry, client: RegistryClient, oci: bool
) -> None:
    pushed = push(
        registry.host,
        "lab/app",
        "v1",
        [random_layer("a", 900), layer({})],
        oci=oci,
        labels={"of": "lab"},
    )

    image = await client.resolve(
        Reference.parse(f"{registry.host}/lab/app:v1"), connection(registry)
    )

    assert image.root_digest == pushed.root_digest
    assert image.media_type == (OCI_MANIFEST if oci else DOCKER_MANIFEST)
    (only,) = image.platforms
    assert only.platform == AMD64
    assert only.manifest_digest == pushed.root_digest
    assert only.config_digest == pushed.config_digest
    assert only.layers == tuple(Layer(each.digest, each.size) for each in pushed.layers)
    assert only.size == sum(each.size for each in pushed.layers)
    assert only.diff_ids == tuple(each.diff_id for each in pushed.layers)
    assert image.labels == {"of": "lab"}


@pytest.mark.parametrize("oci", [False, True])
async def test_an_index_is_read_down_to_what_the_hosts_would_take(
    registry: Registry, client: RegistryClient, oci: bool
) -> None:
    amd64 = push(registry.host, "lab/app", "amd64", [random_layer("a", 500)], oci=oci)
    arm64 = push(
        registry.host, "lab/app", "arm64", [random_layer("b", 700)], architecture="arm64", oci=oci
    )
    index = push_index(
        registry.host,
        "lab/app",
        "v1",
        {("linux", "amd64", ""): amd64, ("linux", "arm64", "v8"): arm64},
        oci=oci,
    )
    reference = Reference.parse(f"{registry.host}/lab/app:v1")

    every = await client.resolve(reference, connection(registry))
    some = await client.resolve(reference, connection(registry), [AMD64])

    assert every.root_digest == some.root_digest == index.root_digest
    assert every.media_type == (OCI_INDEX if oci else DOCKER_LIST)
    assert [each.manifest_digest for each in every.platforms] == [
        amd64.root_digest,
        arm64.root_digest,
    ]
    taken = every.for_platform(ARM64)
    assert taken is not None
    assert taken.config_digest == arm64.config_digest
    assert [each.platform for each in some.platforms] == [AMD64]
    assert some.for_platform(ARM64) is None
    assert some.available == every.available == (AMD64, ARM64)
    assert ResolvedImage.from_json(every.to_json()) == every
    assert ResolvedImage.from_json(some.to_json()) == some


async def test_a_single_foreign_manifest_shows_its_platform(
    registry: Registry, client: RegistryClient
) -> None:
    push(registry.host, "lab/arm", "v1", [layer({})], architecture="arm", variant="v7")

    image = await client.resolve(
        Reference.parse(f"{registry.host}/lab/arm:v1"), connection(registry)
    )

    assert image.for_platform(AMD64) is None
    assert image.available == (Platform("linux", "arm", "v7"),)


async def test_a_digest_wins_over_a_tag_that_has_moved(
    registry: Registry, client: RegistryClient
) -> None:
    before = push(registry.host, "lab/app", "v1", [random_layer("a", 10)])
    push(registry.host, "lab/app", "v1", [random_layer("a", 10)])
    reference = Reference.parse(f"{registry.host}/lab/app:v1@{before.root_digest}")

    image = await client.resolve(reference, connection(registry))

    assert image.root_digest == before.root_digest
    assert image.reference.tag == "v1"


async def test_the_tag_is_read_once_and_never_by_head(
    registry: Registry, client: RegistryClient
) -> None:
    push(registry.host, "lab/app", "v1", [layer({})])
    before = len(registry.requests())

    await client.resolve(Reference.parse(f"{registry.host}/lab/app:v1"), connection(registry))
    registry.stop()

    asked = [
        (method, path) for method, path in registry.requests()[before:] if "/manifests/" in path
    ]
    assert asked == [("GET", "/v2/lab/app/manifests/v1")]


@pytest.mark.parametrize("name", ["lab/app:nosuch", "lab/nosuch:v1", "lab/app@sha256:" + "0" * 64])
async def test_what_the_registry_does_not_have_is_not_found(
    registry: Registry, client: RegistryClient, name: str
) -> None:
    push(registry.host, "lab/app", "v1", [layer({})])

    with pytest.raises(FailureError) as caught:
        await client.resolve(Reference.parse(f"{registry.host}/{name}"), connection(registry))

    assert caught.value.code == "not-found"
    assert name in caught.value.message


async def test_a_registry_that_is_down_is_a_network_failure(
    registry: Registry, client: RegistryClient
) -> None:
    registry.stop()

    with pytest.raises(FailureError) as caught:
        await client.resolve(Reference.parse(f"{registry.host}/lab/app:v1"), connection(registry))

    assert caught.value.code == "network"
    assert registry.host in caught.value.message


async def test_a_damaged_manifest_is_corrupt(registry: Registry, client: RegistryClient) -> None:
    pushed = push(registry.host, "lab/app", "v1", [layer({})])
    digits = pushed.config_digest.removeprefix("sha256:")
    blob = registry.data_path / "blobs" / "sha256" / digits[:2] / digits / "data"
    blob.write_bytes(blob.read_bytes().replace(b"linux", b"linuz"))

    with pytest.raises(FailureError) as caught:
        await client.resolve(Reference.parse(f"{registry.host}/lab/app:v1"), connection(registry))

    assert caught.value.code == "corrupt"


async def test_a_password_opens_a_guarded_registry(tmp_path: Path, client: RegistryClient) -> None:
    with Registry(tmp_path, users=dict([ALICE])) as registry:
        pushed = push(registry.host, "lab/app", "v1", [layer({})], credentials=ALICE)
        reference = Reference.parse(f"{registry.host}/lab/app:v1")

        await client.check(connection(registry, ALICE))
        image = await client.resolve(reference, connection(registry, ALICE))

        assert image.root_digest == pushed.root_digest
        for user in (None, ("alice", "wrong"), ("bob", ALICE[1])):
            for ask in (
                client.check(connection(registry, user)),
                client.resolve(reference, connection(registry, user)),
            ):
                with pytest.raises(FailureError) as caught:
                    await ask
                assert caught.value.failure.failure_class is FailureClass.AUTH


async def test_tokens_open_a_registry_and_are_kept_while_they_last(
    tmp_path: Path, client: RegistryClient
) -> None:
    with TokenServer(dict([ALICE])) as tokens, Registry(tmp_path, token_server=tokens) as registry:
        pushed = push(registry.host, "lab/app", "v1", [layer({})], credentials=ALICE)
        push(registry.host, "lab/other", "v1", [layer({})], credentials=ALICE)
        alice = connection(registry, ALICE)
        tokens.asked.clear()

        await client.check(alice)
        for _ in range(3):
            image = await client.resolve(Reference.parse(f"{registry.host}/lab/app:v1"), alice)
        await client.resolve(Reference.parse(f"{registry.host}/lab/other:v1"), alice)

        assert image.root_digest == pushed.root_digest
        assert tokens.asked == [
            (),
            ("repository:lab/app:pull",),
            ("repository:lab/other:pull",),
        ]


async def test_a_token_service_that_refuses_is_an_auth_failure(
    tmp_path: Path, client: RegistryClient
) -> None:
    with TokenServer(dict([ALICE])) as tokens, Registry(tmp_path, token_server=tokens) as registry:
        reference = Reference.parse(f"{registry.host}/lab/app:v1")
        wrong = connection(registry, ("alice", "wrong-word"))

        await client.check(connection(registry))  # nobody's rights show per repository only
        for ask in (
            client.check(wrong),
            client.resolve(reference, wrong),
            client.resolve(reference, connection(registry)),
        ):
            with pytest.raises(FailureError) as caught:
                await ask
            assert caught.value.code == "auth"
            assert "wrong-word" not in str(caught.value.to_json())
