import asyncio

import pytest

from wharfinger.domain.errors import Conflict, InvalidRequest, UnknownId
from wharfinger.manager.access.principal import Role
from wharfinger.manager.access.service import Access
from wharfinger.manager.access.tokens import authenticate
from wharfinger.manager.access.users import add_user, ensure_superadmin, list_users
from wharfinger.manager.storage.port import Storage


async def test_the_first_superadmin_is_made_once(storage: Storage) -> None:
    issued = await storage.write(ensure_superadmin, "admin")
    assert issued is not None
    principal = await storage.read(authenticate, issued.token)
    assert (principal.name, principal.role) == ("admin", Role.SUPERADMIN)
    assert await storage.write(ensure_superadmin, "admin") is None
    assert await storage.write(ensure_superadmin, "another") is None
    assert [user.name for user in await storage.read(list_users)] == ["admin"]


async def test_a_plain_user_of_that_name_is_not_made_superadmin(storage: Storage) -> None:
    await storage.write(add_user, "admin", "user")
    with pytest.raises(Conflict, match="a user 'admin' already"):
        await storage.write(ensure_superadmin, "admin")


async def test_a_name_is_taken_once_and_free_again_after_its_user(storage: Storage) -> None:
    access = Access(storage)
    first = await access.add_user("ann", "user")
    with pytest.raises(Conflict):
        await access.add_user("ann", "superadmin")
    assert await access.remove_user("ann") == first
    second = await access.add_user("ann", "user")
    assert second.id != first.id
    assert await access.user_names() == {second.id: "ann"}


@pytest.mark.parametrize("name", ["", " ann", "ann\n", "-ann", "änn", "a" * 65, "ann\0"])
async def test_odd_names_are_refused(sqlite_storage: Storage, name: str) -> None:
    with pytest.raises(InvalidRequest, match="begins with a letter"):
        await Access(sqlite_storage).add_user(name, "user")


async def test_an_unknown_role_is_refused_with_the_known(sqlite_storage: Storage) -> None:
    with pytest.raises(InvalidRequest, match="one of superadmin, user, not 'root'"):
        await Access(sqlite_storage).add_user("ann", "root")


async def test_the_last_superadmin_cannot_be_removed(storage: Storage) -> None:
    access = Access(storage)
    await access.add_user("root", "superadmin")
    await access.add_user("ann", "user")
    with pytest.raises(Conflict, match="'root' is the last superadmin"):
        await access.remove_user("root")
    await access.add_user("boss", "superadmin")
    await access.remove_user("root")
    with pytest.raises(Conflict):
        await access.remove_user("boss")


async def test_removed_at_once_two_superadmins_leave_one(storage: Storage) -> None:
    access = Access(storage)
    for name in ("one", "two"):
        await access.add_user(name, "superadmin")
    ends = await asyncio.gather(
        access.remove_user("one"), access.remove_user("two"), return_exceptions=True
    )
    assert [type(end) for end in ends if isinstance(end, Exception)] == [Conflict]
    assert len(await access.users()) == 1


async def test_who_is_not_there_cannot_be_removed(storage: Storage) -> None:
    with pytest.raises(UnknownId, match="no user 'ghost'"):
        await Access(storage).remove_user("ghost")
