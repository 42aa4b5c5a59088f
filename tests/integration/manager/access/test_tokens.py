import pytest
from sqlalchemy import Connection, select

from wharfinger.domain.errors import InvalidRequest, Unauthenticated, UnknownId
from wharfinger.manager.access.service import Access
from wharfinger.manager.access.tokens import join_token_valid
from wharfinger.manager.storage.port import Storage
from wharfinger.manager.storage.tables import join_tokens, tokens


@pytest.fixture
async def access(storage: Storage) -> Access:
    access = Access(storage)
    await access.add_user("ann", "user")
    await access.add_user("bob", "user")
    return access


def everything_stored(conn: Connection) -> str:
    rows = [*conn.execute(select(tokens)), *conn.execute(select(join_tokens))]
    return repr([tuple(row) for row in rows])


async def test_a_token_stands_for_its_user_until_revoked(access: Access) -> None:
    issued = await access.create_token("ann", "laptop")
    assert (await access.authenticate(issued.token)).name == "ann"
    revoked = await access.revoke_token(issued.id)
    assert (revoked.user, revoked.label) == ("ann", "laptop")
    with pytest.raises(Unauthenticated, match="was revoked"):
        await access.authenticate(issued.token)
    with pytest.raises(UnknownId):
        await access.revoke_token(issued.id)


async def test_tokens_end_with_their_user(access: Access) -> None:
    issued = await access.create_token("ann", "laptop")
    await access.remove_user("ann")
    with pytest.raises(Unauthenticated):
        await access.authenticate(issued.token)
    assert await access.tokens(user_id=None) == []


async def test_only_hashes_are_stored(access: Access, storage: Storage) -> None:
    issued = [await access.create_token("ann", "x"), await access.create_join_token("y")]
    stored = await storage.read(everything_stored)
    for token in issued:
        assert token.id in stored
        assert token.token not in stored
        assert token.token[4:] not in stored


@pytest.mark.parametrize(
    ("bearer", "needs"), [(None, "token"), ("", "token"), ("whu_wrong", "valid-token")]
)
async def test_what_is_missing_is_said(access: Access, bearer: str | None, needs: str) -> None:
    with pytest.raises(Unauthenticated) as caught:
        await access.authenticate(bearer)
    assert caught.value.detail == {"needs": needs}


async def test_a_user_sees_their_own_tokens(access: Access) -> None:
    for user, label in (("ann", "a1"), ("bob", "b1"), ("ann", "a2")):
        await access.create_token(user, label)
    own = await access.tokens(user_id=await access.user_id("ann"))
    assert {view.label for view in own} == {"a1", "a2"}
    assert {view.label for view in await access.tokens(user_id=None)} == {"a1", "a2", "b1"}


async def test_nobody_gets_no_token(access: Access) -> None:
    with pytest.raises(UnknownId, match="no user 'ghost'"):
        await access.create_token("ghost", "x")


@pytest.mark.parametrize("label", ["two\nlines", "x" * 201, "nul\0"])
async def test_odd_labels_are_refused(access: Access, label: str) -> None:
    with pytest.raises(InvalidRequest, match="printable"):
        await access.create_token("ann", label)
    with pytest.raises(InvalidRequest, match="printable"):
        await access.create_join_token(label)


async def test_a_join_token_lets_agents_join_and_is_no_users(
    access: Access, storage: Storage
) -> None:
    join = await access.create_join_token("rack 3")
    own = await access.create_token("ann", "x")
    assert await storage.read(join_token_valid, join.token)
    assert not await storage.read(join_token_valid, own.token)
    assert not await storage.read(join_token_valid, "")
    await access.revoke_join_tokens("rack 3")
    assert not await storage.read(join_token_valid, join.token)
    with pytest.raises(Unauthenticated):
        await access.authenticate(join.token)
