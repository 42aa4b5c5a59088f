from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wharfinger.agent.engine.names import full_id, read_names

DIGEST = "sha256:" + "ab" * 32
NAME = "127.0.0.1:5100/lab/a"


@pytest.mark.parametrize(
    ("repo_tags", "repo_digests", "tags", "digests"),
    [
        # Docker 20.10
        ([f"{NAME}:v1"], [f"{NAME}@{DIGEST}"], (f"{NAME}:v1",), (f"{NAME}@{DIGEST}",)),
        (["dh:v1"], None, ("docker.io/library/dh:v1",), ()),
        (None, [f"{NAME}@{DIGEST}"], (), (f"{NAME}@{DIGEST}",)),
        (["<none>:<none>"], ["<none>@<none>"], (), ()),
        # Podman
        (["docker.io/library/dh:v1"], [], ("docker.io/library/dh:v1",), ()),
        ([f"{NAME}@{DIGEST}"], [f"{NAME}@{DIGEST}"], (), (f"{NAME}@{DIGEST}",)),
        # Docker 28, containerd store
        ([f"{NAME}:v1@{DIGEST}"], [f"{NAME}@{DIGEST}"], (), (f"{NAME}@{DIGEST}",)),
        ([], [DIGEST], (), ()),
        # several names, an odd one among them
        (
            [f"{NAME}:v1", "UPPER/case:v1", f"{NAME}:v2", 5, None],
            [],
            (f"{NAME}:v1", f"{NAME}:v2"),
            (),
        ),
    ],
)
def test_every_engines_spelling_is_read(
    repo_tags: Any, repo_digests: Any, tags: tuple[str, ...], digests: tuple[str, ...]
) -> None:
    assert read_names(repo_tags, repo_digests) == (tags, digests)


def test_an_id_without_its_algorithm_is_completed() -> None:
    assert full_id("ab" * 32) == DIGEST
    assert full_id(DIGEST) == DIGEST
    assert full_id(None) == ""


_anything = st.none() | st.text() | st.integers() | st.lists(st.text() | st.none() | st.integers())


@settings(deadline=None)
@given(_anything, _anything)
def test_no_names_raise(repo_tags: Any, repo_digests: Any) -> None:
    read_names(repo_tags, repo_digests)
