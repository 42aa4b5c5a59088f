"""Registries made known, on each database and the real docker-registry."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from cryptography.fernet import Fernet
from rig.people import ROOT
from rig.registry import Registry
from sqlalchemy import Connection, select

from wharfinger.domain.errors import InvalidRequest, UnknownId, UnknownRegistry
from wharfinger.domain.failures import FailureError
from wharfinger.manager.access import audit, users
from wharfinger.manager.access.grants import Grants
from wharfinger.manager.catalogue.registries import Registries, RegistryView
from wharfinger.manager.catalogue.vault import Vault, VaultError
from wharfinger.manager.storage import tables
from wharfinger.manager.storage.port import Storage
from wharfinger.registry.client import RegistryClient
from wharfinger.registry.connection import RegistryConnection
from wharfinger.registry.transport import Limits

ALICE = {"alice": "s3cret-word"}
DOWN = "127.0.0.1:1"


@pytest.fixture
async def client() -> AsyncIterator[RegistryClient]:
    async with RegistryClient(Limits(check=2)) as opened:
        yield opened


@pytest.fixture
def registries(storage: Storage, client: RegistryClient) -> Registries:
    return Registries(storage, Vault(Fernet.generate_key()), client)


def _passwords(conn: Connection) -> list[str]:
    return list(conn.scalars(select(tables.registries.c.password_encrypted)))


async def test_a_registry_is_known_with_its_password_encrypted(
    registries: Registries, storage: Storage, tmp_path: Path
) -> None:
    with Registry(tmp_path / "registry", users=ALICE) as registry:
        url = f"http://{registry.host}"

        added = await registries.add(registry.host, "alice", "s3cret-word", who=ROOT)

        assert added == RegistryView(registry.host, url, "alice")
        assert await registries.list() == [added]
        assert await registries.connection(registry.host) == RegistryConnection(
            registry.host, url, "alice", "s3cret-word"
        )
        (encrypted,) = await storage.read(_passwords)
        assert "s3cret-word" not in encrypted


async def test_wrong_credentials_are_refused_and_change_nothing(
    registries: Registries, tmp_path: Path
) -> None:
    with Registry(tmp_path / "registry", users=ALICE) as registry:
        await registries.add(registry.host, "alice", "s3cret-word", who=ROOT)

        for username, password in (("alice", "wrong"), (None, None)):
            with pytest.raises(FailureError) as caught:
                await registries.add(registry.host, username, password, who=ROOT)
            assert caught.value.code == "auth"

        assert (await registries.connection(registry.host)).password == "s3cret-word"


async def test_a_registry_that_is_not_up_yet_is_taken(registries: Registries) -> None:

    await registries.add(DOWN, None, None, who=ROOT)

    assert (await registries.connection(DOWN)).username is None


async def test_adding_it_again_replaces_what_is_known(registries: Registries) -> None:
    await registries.add(f"https://{DOWN}", "alice", "before", who=ROOT)

    await registries.add(f"http://{DOWN}/v2/", "bob", "after", who=ROOT)

    assert await registries.list() == [RegistryView(DOWN, f"http://{DOWN}", "bob")]
    assert (await registries.connection(DOWN)).password == "after"


async def test_a_removed_registry_is_unknown_and_the_known_are_named(
    registries: Registries,
) -> None:
    gone, kept = DOWN, "127.0.0.1:2"
    await registries.add(gone, None, None, who=ROOT)
    await registries.add(kept, None, None, who=ROOT)

    assert (await registries.remove(f"http://{gone}", who=ROOT)).host == gone

    for ask in (registries.connection(gone), registries.remove(gone, who=ROOT)):
        with pytest.raises(UnknownRegistry) as caught:
            await ask
        assert f"known: {kept}" in caught.value.message
        assert caught.value.detail == {"registry": gone, "known": [kept]}
    with pytest.raises(UnknownRegistry, match=f"no address is not known here; known: {kept}$"):
        await registries.remove("no address", who=ROOT)


async def test_another_host_of_the_hub_gets_no_password_of_it(registries: Registries) -> None:
    with pytest.raises(UnknownRegistry, match=r"The Docker Hub is docker\.io in references"):
        await registries.connection("registry-1.docker.io")


@pytest.mark.parametrize(
    ("username", "password"), [("alice", None), (None, "word"), ("a:b", "word"), ("a\n", "word")]
)
async def test_half_a_credential_is_refused(
    registries: Registries, username: str | None, password: str | None
) -> None:
    with pytest.raises(InvalidRequest):
        await registries.add("127.0.0.1:1", username, password, who=ROOT)


async def test_another_key_is_said_when_a_connection_is_needed(
    registries: Registries, storage: Storage, client: RegistryClient
) -> None:
    await registries.add(DOWN, "alice", "word", who=ROOT)
    other = Registries(storage, Vault(Fernet.generate_key()), client)

    with pytest.raises(VaultError, match="another key"):
        await other.connection(DOWN)


async def test_whom_images_are_for_is_told_and_outlives_their_registry(
    registries: Registries, storage: Storage
) -> None:
    await storage.write(users.add_user, "alice", "user")
    await registries.add("h.test", None, None, who=ROOT)

    granted = await registries.grant("H.test/lab", ["alice"], ["vision"], who=ROOT)
    await registries.remove("h.test", who=ROOT)

    assert granted == Grants("h.test/lab", ("alice",), ("vision",))
    assert await registries.grants() == [granted]
    left = await registries.revoke("h.test/lab", ["alice"], [], who=ROOT)
    assert left == Grants("h.test/lab", (), ("vision",))
    assert [
        (entry.action, entry.target, entry.detail)
        for entry in await storage.read(audit.page, limit=10)
    ] == [
        ("registry.revoke", "h.test/lab", {"users": ["alice"], "groups": []}),
        ("registry.remove", "h.test", {}),
        ("registry.grant", "h.test/lab", {"users": ["alice"], "groups": ["vision"]}),
        ("registry.add", "h.test", {"url": "https://h.test", "username": None}),
    ]


async def test_nothing_is_granted_below_an_unknown_registry_or_to_an_unknown_user(
    registries: Registries, storage: Storage
) -> None:
    with pytest.raises(UnknownRegistry, match=r"registry add h\.test"):
        await registries.grant("h.test/lab", [], ["vision"], who=ROOT)
    await registries.add("h.test", None, None, who=ROOT)
    with pytest.raises(UnknownId, match="no user 'alice'"):
        await registries.grant("h.test/lab", ["alice"], [], who=ROOT)
    with pytest.raises(InvalidRequest, match="not a path"):
        await registries.grant("h.test/Lab", ["alice"], [], who=ROOT)
    assert await registries.grants() == []
    assert len(await storage.read(audit.page, limit=10)) == 1
