"""Pages of a long list, continued by opaque cursors."""

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

import strawberry

from wharfinger.domain.errors import InvalidRequest

LARGEST_PAGE: Final = 1000

N = TypeVar("N")
V = TypeVar("V")


@strawberry.type(description="Where a page ends")
class PageInfo:
    """`endCursor` is what `after` takes for the next page."""

    has_next_page: bool
    end_cursor: str | None


@strawberry.type
class Edge(Generic[N]):
    """One thing and the cursor that a page after it begins from."""

    cursor: str
    node: N


@strawberry.type
class Connection(Generic[N]):
    """One page."""

    edges: list[Edge[N]]
    nodes: list[N]
    page_info: PageInfo


def page_size(first: int) -> int:
    """The size asked for; raises `InvalidRequest` for one that is not served."""
    if not 1 <= first <= LARGEST_PAGE:
        raise InvalidRequest(f"first is from 1 to {LARGEST_PAGE}, not {first}", first=first)
    return first


def page(
    views: Sequence[V], size: int, node: Callable[[V], N], key: Callable[[V], str]
) -> Connection[N]:
    """A page of at most `size`; one view more than that tells that there is another page."""
    edges = [Edge(cursor=_cursor(key(view)), node=node(view)) for view in views[:size]]
    return Connection(
        edges=edges,
        nodes=[edge.node for edge in edges],
        page_info=PageInfo(
            has_next_page=len(views) > size, end_cursor=edges[-1].cursor if edges else None
        ),
    )


def key_of(cursor: str | None) -> str | None:
    """The key in a cursor; raises `InvalidRequest` when it is none of ours."""
    if cursor is None:
        return None
    try:
        key = base64.urlsafe_b64decode(cursor.encode("ascii")).decode("utf-8")
    except (UnicodeError, binascii.Error, ValueError):
        key = "\0"
    if "\0" in key:  # no key has one, and PostgreSQL takes none
        raise InvalidRequest("after is no cursor from here", after=cursor[:200])
    return key


def _cursor(key: str) -> str:
    return base64.urlsafe_b64encode(key.encode()).decode("ascii")
