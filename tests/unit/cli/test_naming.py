"""Sessions and tasks are found by what people have of them."""

from collections.abc import Sequence
from typing import Any

import pytest
from rig.session_answers import kernel, session
from rig.task_answers import task

from wharfinger.cli.naming import with_session, with_task
from wharfinger.client.errors import RemoteError
from wharfinger.domain.errors import UnknownId

OPEN = [
    session(id="4f2a1", name="train"),
    session(id="4f2b2", name="twice"),
    session(id="9c3d3", name="twice"),
]
ENDED = [session(kernel("TERMINATED"), id="7e4f4", name="train"), session(id="8a5b5", name="old")]


class Manager:
    """Has these sessions and tasks."""

    async def sessions(self, *, limit: int | None = None, status: Sequence[str] = ()) -> list[Any]:
        return OPEN if status else [*OPEN, *ENDED][:limit]

    async def tasks(self, *, limit: int) -> list[Any]:
        return [task(id="4f2a1"), task(id="4f9f9")][:limit]


async def shown(thing_id: str) -> str:
    """As a manager answers an id that has to be whole."""
    if thing_id not in {each["id"] for each in [*OPEN, *ENDED]} | {"4f9f9"}:
        raise RemoteError("unknown-id", f"there is no {thing_id}")
    return thing_id


async def find_session(text: str) -> str:
    manager: Any = Manager()
    return await with_session(manager, text, shown)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("4f2a1", "4f2a1"),
        ("4f2a", "4f2a1"),
        ("train", "4f2a1"),
        ("old", "8a5b5"),
        ("7e", "7e4f4"),
    ],
)
async def test_a_session_is_meant_by_id_name_or_beginning(text: str, found: str) -> None:
    assert await find_session(text) == found


@pytest.mark.parametrize(("text", "several"), [("4f", "4f2a1, 4f2b2"), ("twice", "4f2b2, 9c3d3")])
async def test_what_could_be_several_is_refused_with_their_ids(text: str, several: str) -> None:
    with pytest.raises(UnknownId, match=f"{text} could be several: {several}"):
        await find_session(text)


async def test_what_is_nowhere_is_refused_as_the_manager_says() -> None:
    with pytest.raises(RemoteError, match="there is no nothing"):
        await find_session("nothing")


async def test_other_refusals_are_passed_on() -> None:
    async def forbidden(_: str) -> str:
        raise RemoteError("forbidden", "not yours")

    manager: Any = Manager()
    with pytest.raises(RemoteError, match="not yours"):
        await with_session(manager, "train", forbidden)


async def test_a_task_is_meant_by_the_beginning_of_its_id_but_not_by_its_name() -> None:
    manager: Any = Manager()
    assert await with_task(manager, "4f9", shown) == "4f9f9"
    with pytest.raises(UnknownId, match="4f could be several"):
        await with_task(manager, "4f", shown)
    with pytest.raises(RemoteError):
        await with_task(manager, "preload", shown)
