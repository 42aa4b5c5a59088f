from typing import Any

import pytest

from wharfinger.agent.engine.events import read_change
from wharfinger.agent.engine.port import Change


@pytest.mark.parametrize("action", ["pull", "tag", "untag", "delete", "remove", "loadfromarchive"])
def test_every_event_of_an_image_may_change_images(action: str) -> None:
    assert read_change({"Type": "image", "Action": action}) is Change.IMAGES


@pytest.mark.parametrize(
    "action",
    [
        "create",
        "init",
        "start",
        "die",
        "died",
        "oom",
        "kill",
        "stop",
        "rename",
        "destroy",
        "remove",
    ],
)
def test_what_a_container_lives_through_may_change_containers(action: str) -> None:
    assert read_change({"Type": "container", "Action": action}) is Change.CONTAINERS


@pytest.mark.parametrize(
    "action",
    [
        "exec",
        "exec_create: true ",
        "exec_start: true ",
        "exec_die",
        "exec_died",
        "health_status: healthy",
        "top",
        "attach",
        "detach",
        "resize",
    ],
)
def test_looking_at_a_container_or_running_in_it_changes_nothing(action: str) -> None:
    assert read_change({"Type": "container", "Action": action}) is None


@pytest.mark.parametrize("event", [None, [], {}, {"Type": "network", "Action": "connect"}])
def test_what_is_of_neither_changes_nothing(event: Any) -> None:
    assert read_change(event) is None
