"""Whom images are for, on each database."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rig.people import ROOT
from sqlalchemy import Connection

from wharfinger.domain.errors import Conflict, InvalidRequest, UnknownId
from wharfinger.manager.access import grants, groups, users
from wharfinger.manager.access.grants import Grants, read_path
from wharfinger.manager.access.principal import Principal
from wharfinger.manager.storage.port import Storage


def people(conn: Connection) -> dict[str, Principal]:
    added = [users.add_user(conn, name, "user") for name in ("alice", "bob", "carol")]
    return {user.name: Principal(user.id, user.name, user.role) for user in added}


async def test_what_is_not_limited_is_for_everybody(storage: Storage) -> None:
    def deed(conn: Connection) -> list[bool]:
        alice = people(conn)["alice"]
        grants.grant(conn, "h.test:5000", ["bob"], [])
        names = ("h.test:5000/a", "h.test/a", "h.test:50001/a", "other.test/h.test:5000/a")
        return [grants.allow(conn, alice, name) for name in names]

    assert await storage.write(deed) == [False, True, True, True]


async def test_the_longest_path_that_covers_an_image_decides_alone(storage: Storage) -> None:
    def deed(conn: Connection) -> dict[str, list[bool]]:
        by_name = people(conn)
        groups.change(conn, "alice", ["vision", "lab"], [])
        groups.change(conn, "carol", ["lab"], [])
        grants.grant(conn, "h.test", [], ["lab"])
        grants.grant(conn, "h.test/team", ["bob"], [])
        grants.grant(conn, "h.test/team/vision", [], ["vision", "nobody"])
        names = ("h.test/a", "h.test/team", "h.test/team/b", "h.test/teams", "h.test/team/vision/c")
        asked = [*by_name.values(), ROOT]
        for each in asked:
            may = grants.allowed(conn, each)
            assert [may(name) for name in names] == [
                grants.allow(conn, each, name) for name in names
            ]
        return {each.name: [grants.allow(conn, each, name) for name in names] for each in asked}

    assert await storage.write(deed) == {
        "alice": [True, False, False, True, True],
        "bob": [False, True, True, False, False],
        "carol": [True, False, False, True, False],
        "root": [True] * 5,
    }


@pytest.mark.parametrize("path", ["docker.io/nginx", "docker.io/library/nginx"])
async def test_an_official_image_is_limited_by_either_of_its_names(
    storage: Storage, path: str
) -> None:
    def deed(conn: Connection) -> list[bool]:
        users_there = people(conn)
        grants.grant(conn, "docker.io/library", ["bob"], [])
        grants.grant(conn, read_path(path), ["alice"], [])
        name = "docker.io/library/nginx"
        return [grants.allow(conn, users_there[each], name) for each in ("alice", "bob")]

    assert await storage.write(deed) == [True, False]


async def test_grants_add_up_and_are_told_by_path(storage: Storage) -> None:
    def deed(conn: Connection) -> list[Grants]:
        people(conn)
        grants.grant(conn, "h.test/b", ["bob"], [])
        grants.grant(conn, "h.test/b", ["alice", "bob"], ["lab"])
        grants.grant(conn, "h.test/a", [], ["lab"])
        assert grants.revoke(conn, "h.test/b", ["bob"], []).users == ("alice",)
        return grants.all_grants(conn)

    assert await storage.write(deed) == [
        Grants("h.test/a", (), ("lab",)),
        Grants("h.test/b", ("alice",), ("lab",)),
    ]


async def test_nothing_is_opened_to_everybody_by_taking_the_last_name_away(
    storage: Storage,
) -> None:
    def begin(conn: Connection) -> None:
        people(conn)
        grants.grant(conn, "h.test", ["bob"], ["lab"])

    await storage.write(begin)
    with pytest.raises(Conflict, match="open to everybody"):
        await storage.write(grants.revoke, "h.test", ["bob"], ["lab"])
    assert await storage.write(grants.revoke, "h.test", [], []) == Grants("h.test")
    assert await storage.read(grants.all_grants) == []


async def test_who_is_named_as_a_removed_user_inherits_nothing_and_nothing_is_opened(
    storage: Storage,
) -> None:
    def deed(conn: Connection) -> list[bool]:
        before = people(conn)
        grants.grant(conn, "h.test/secret", ["alice"], [])
        users.remove_user(conn, "alice")
        again = users.add_user(conn, "alice", "user")
        named_so = Principal(again.id, again.name, again.role)
        return [grants.allow(conn, who, "h.test/secret/app") for who in (named_so, before["bob"])]

    assert await storage.write(deed) == [False, False]
    (left,) = await storage.read(grants.all_grants)
    assert left.users[0].startswith("alice (removed, ")


async def test_who_is_not_there_is_refused(storage: Storage) -> None:
    await storage.write(people)
    with pytest.raises(UnknownId, match="no user 'dave'"):
        await storage.write(grants.grant, "h.test", ["bob", "dave"], [])
    with pytest.raises(InvalidRequest, match="at least one"):
        await storage.write(grants.grant, "h.test", [], [])
    with pytest.raises(InvalidRequest, match="group's name"):
        await storage.write(grants.grant, "h.test", [], ["no group"])
    with pytest.raises(UnknownId, match="not limited"):
        await storage.write(grants.revoke, "h.test", [], [])
    await storage.write(grants.grant, "h.test", ["bob"], [])
    with pytest.raises(UnknownId, match="not granted to the user 'alice'"):
        await storage.write(grants.revoke, "h.test", ["alice"], [])


async def test_users_are_put_into_groups_and_taken_out(storage: Storage) -> None:
    def deed(conn: Connection) -> dict[str, tuple[str, ...]]:
        alice = people(conn)["alice"]
        assert groups.change(conn, "alice", ["b", "a"], []) == ("a", "b")
        assert groups.change(conn, "alice", ["a", "c"], ["b", "never"]) == ("a", "c")
        return {"alice": groups.of_users(conn)[alice.user_id]}

    assert await storage.write(deed) == {"alice": ("a", "c")}
    with pytest.raises(UnknownId, match="no user 'dave'"):
        await storage.write(groups.change, "dave", ["a"], [])
    with pytest.raises(InvalidRequest, match="at once"):
        await storage.write(groups.change, "alice", ["a"], ["a"])
    with pytest.raises(InvalidRequest, match="group's name"):
        await storage.write(groups.change, "alice", ["-"], [])


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("H.test:05000", "h.test:5000"),
        ("h.test/a/b", "h.test/a/b"),
        ("index.docker.io", "docker.io"),
        ("index.docker.io/grafana", "docker.io/grafana"),
        ("docker.io/library/busybox", "docker.io/library/busybox"),
        ("[::1]:5000/a", "[::1]:5000/a"),
    ],
)
def test_a_path_is_a_host_and_whole_segments_of_a_name(text: str, path: str) -> None:
    assert read_path(text) == path
    assert read_path(path) == path


@pytest.mark.parametrize(
    "text", ["", "busybox", "h.test/", "h.test/a/", "h.test/A", "h.test/a:v1", "h.test//a", "a b"]
)
def test_what_is_no_path_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest):
        read_path(text)


@given(st.text(max_size=40))
def test_any_text_is_a_path_or_refused(text: str) -> None:
    try:
        path = read_path(text)
    except InvalidRequest:
        return
    assert read_path(path) == path
