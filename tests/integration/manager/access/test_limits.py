import pytest
from rig.session_rows import add_session, advance
from sqlalchemy import Connection

from wharfinger.domain.errors import Conflict, InvalidRequest, UnknownId
from wharfinger.domain.slots import MOST, Quota, Slots
from wharfinger.domain.states import KernelStatus
from wharfinger.manager.access.limits import LimitChanges, Limits, Occupied
from wharfinger.manager.access.service import Access
from wharfinger.manager.storage.port import Storage


async def test_a_new_user_has_no_limits(storage: Storage) -> None:
    access = Access(storage)
    await access.add_user("ann", "user")
    assert (await access.user("ann")).limits == Limits(None, Quota(), None)


async def test_what_is_not_named_stays_and_none_is_no_limit(storage: Storage) -> None:
    access = Access(storage)
    await access.add_user("ann", "user")
    first = await access.set_limits(
        "ann",
        LimitChanges({"sessions": 3, "cpu": 1500, "mem": MOST, "scaling_groups": ["a", "b", "a"]}),
    )
    assert first.limits == Limits(3, Quota(1500, MOST, None), ("a", "b"))
    second = await access.set_limits(
        "ann", LimitChanges({"cpu": None, "gpu": 0, "scaling_groups": None})
    )
    assert second.limits == Limits(3, Quota(None, MOST, 0), None)
    assert await access.set_limits("ann", LimitChanges({})) == second
    assert await access.users() == [second]


async def test_no_scaling_group_at_all_is_not_the_same_as_all(storage: Storage) -> None:
    access = Access(storage)
    await access.add_user("ann", "user")
    view = await access.set_limits("ann", LimitChanges({"scaling_groups": []}))
    assert view.limits.scaling_groups == ()


@pytest.mark.parametrize(
    ("field", "name", "value"),
    [
        ("sessions", "sessions", -1),
        ("sessions", "sessions", 2**31),
        ("cpu", "cpu", -1),
        ("mem", "mem", MOST + 1),
        ("gpu", "gpu", -5),
        ("scalingGroups", "scaling_groups", ["a", ""]),
        ("scalingGroups", "scaling_groups", ["a\nb"]),
    ],
)
async def test_what_is_wrong_is_named(
    sqlite_storage: Storage, field: str, name: str, value: object
) -> None:
    access = Access(sqlite_storage)
    before = await access.add_user("ann", "user")
    with pytest.raises(InvalidRequest, match=field) as refused:
        await access.set_limits("ann", LimitChanges({"gpu": 1, name: value}))
    assert refused.value.detail == {"field": field}
    assert await access.user("ann") == before


async def test_nobody_has_no_limits(sqlite_storage: Storage) -> None:
    with pytest.raises(UnknownId, match="no user 'ghost'"):
        await Access(sqlite_storage).set_limits("ghost", LimitChanges({"gpu": 1}))
    with pytest.raises(UnknownId):
        await Access(sqlite_storage).user("ghost")


def sessions_of_ann(conn: Connection) -> None:
    """One waits, one pulls, one runs with one of its two kernels still prepared, one has ended."""
    for session_id in ("waits", "pulls", "ended"):
        add_session(conn, session_id, owner_id="ann")
    add_session(conn, "runs", owner_id="ann", kernel_count=2)
    advance(conn, "pulls-k1", upto=KernelStatus.PULLING)
    advance(conn, "ended-k1", upto=KernelStatus.TERMINATED)
    advance(conn, "runs-k1", upto=KernelStatus.RUNNING)
    advance(conn, "runs-k2", upto=KernelStatus.PREPARED)


async def test_a_pull_occupies_a_session_and_no_slots(storage: Storage) -> None:
    await storage.write(sessions_of_ann)
    assert await Access(storage).occupied() == {"ann": Occupied(2, Slots(3000, 2 * 2**30))}


async def test_a_user_with_sessions_stays_until_they_have_ended(storage: Storage) -> None:
    access = Access(storage)
    await access.add_user("root", "superadmin")
    ann = await access.add_user("ann", "user")
    await storage.write(add_session, "s1", owner_id=ann.id)
    await storage.write(add_session, "s2", owner_id=ann.id)
    with pytest.raises(Conflict, match="sessions that have not ended: s1, s2") as refused:
        await access.remove_user("ann")
    assert refused.value.detail == {"name": "ann", "sessions": ["s1", "s2"]}
    for kernel_id in ("s1-k1", "s2-k1"):
        await storage.write(advance, kernel_id, KernelStatus.CANCELLED)
    assert await access.remove_user("ann") == ann
