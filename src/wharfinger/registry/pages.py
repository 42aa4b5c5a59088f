"""Lists that registries give out page by page: repositories, and tags.

The next page is named by a `Link` header, of which only the query is followed: what stands before
it is wrong behind many proxies, and never leads our credentials to another host. A registry
without such headers is asked for what comes after the last name, as long as pages are full.
"""

import re
from collections.abc import AsyncGenerator, Sequence
from typing import Any, Final, TypeAlias
from urllib.parse import quote, urlsplit

from wharfinger.domain.failures import FailureClass, FailureError
from wharfinger.registry.failures import failure, read_json
from wharfinger.registry.repository import Fetch
from wharfinger.registry.transport import Answer

Pages: TypeAlias = AsyncGenerator[Sequence[str], None]

PAGE_SIZE: Final = 500
"""Names asked for at once; many registries give more or fewer."""
PAGE_LIMIT: Final = 8 * 1024 * 1024
"""Bytes of one page: registries that know no pages send the whole list."""
PAGES_LIMIT: Final = 10_000

_ABSENT: Final = object()

_LINK = re.compile(r"<([^<>]*)>([^<]*)")
_NEXT = re.compile(r";\s*rel\s*=\s*\"?next\"?", re.IGNORECASE)


async def pages(fetch: Fetch, path: str, key: str, *, asked: str) -> Pages:
    """The pages of the list `key` at `path`, empty ones left out.

    Raises a `FailureError` where one cannot be had, and `registry-error` where pages go round in
    circles or never end: what came before it is then no complete list.
    """
    query = f"n={PAGE_SIZE}"
    landmark, moves_at = query, 2  # Brent: met again exactly where the way goes round
    first: str | None = None
    for count in range(1, PAGES_LIMIT + 1):
        answer = await fetch(
            f"{path}?{query}", asked=asked, size_limit=PAGE_LIMIT, accept="application/json"
        )
        listed = _listed(answer, key, asked)
        names = [each for each in listed if isinstance(each, str)]
        stated = _next_query(answer)
        if stated is None and names and names[0] == first:
            return  # it takes no `last`: this is the first page again, and the only one
        if names:
            yield names
        if stated is None and (len(listed) != PAGE_SIZE or not names):
            return
        first = names[0] if stated is None else None
        query = f"n={PAGE_SIZE}&last={quote(names[-1], safe='')}" if stated is None else stated
        if query == landmark:
            raise failure(
                FailureClass.REGISTRY_ERROR,
                f"{asked}: its pages go round in circles, after {count} of them",
                query,
            )
        if count == moves_at:
            landmark, moves_at = query, moves_at * 2
    raise failure(
        FailureClass.REGISTRY_ERROR, f"{asked}: it does not end after {PAGES_LIMIT:,} pages"
    )


def _listed(answer: Answer, key: str, asked: str) -> list[Any]:
    """The list, whatever is in it; null is an empty one."""
    document = read_json(answer.body)
    listed = document.get(key, _ABSENT) if isinstance(document, dict) else _ABSENT
    if listed is None:
        return []
    if not isinstance(listed, list):
        raise _no_list(answer, asked)
    return listed


def _no_list(answer: Answer, asked: str) -> FailureError:
    return failure(
        FailureClass.REGISTRY_ERROR,
        f"{asked}: the registry's answer is no list",
        answer.body[:200].decode(errors="replace"),
    )


def _next_query(answer: Answer) -> str | None:
    """The query of the next page, None without a usable link to one."""
    for header in answer.headers.getall("Link", ()):
        for target, parameters in _LINK.findall(header):
            if _NEXT.search(parameters):
                try:
                    return urlsplit(target).query or None
                except ValueError:
                    return None
    return None
