from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wharfinger.domain.errors import InvalidRequest
from wharfinger.manager.api.graphql.connections import key_of, page, page_size


@given(
    st.lists(st.text(alphabet=st.characters(codec="utf-8", min_codepoint=1)), unique=True),
    st.integers(1, 9),
)
def test_pages_one_after_the_other_show_everything_once(keys: list[str], size: int) -> None:
    ordered, seen = sorted(keys), list[str]()
    after: str | None = None
    for _ in range(len(keys) + 1):
        rest = [key for key in ordered if after is None or key > after]
        shown = page(rest[: size + 1], size, str, str)
        seen += shown.nodes
        if not shown.page_info.has_next_page:
            break
        after = key_of(shown.page_info.end_cursor)
    assert seen == ordered


@given(st.text(max_size=50))
def test_a_cursor_from_elsewhere_is_refused_or_read_but_never_a_defect(cursor: str) -> None:
    with suppress(InvalidRequest):
        assert isinstance(key_of(cursor), str)


@pytest.mark.parametrize("first", [-1, 0, 1001])
def test_a_page_has_at_least_one_and_at_most_a_thousand(first: int) -> None:
    with pytest.raises(InvalidRequest, match="from 1 to 1000"):
        page_size(first)
