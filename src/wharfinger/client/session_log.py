"""What a session's containers wrote."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from wharfinger.client.http import Client

TRUNCATED_HEADER: Final = "X-Log-Truncated"


@dataclass(frozen=True, slots=True)
class SessionLog:
    """`chunks` are the bytes as they were written. `truncated`: the beginning is not kept."""

    truncated: bool
    chunks: AsyncIterator[bytes]


@asynccontextmanager
async def session_log(
    client: Client,
    session_id: str,
    *,
    kernel_id: str | None = None,
    follow: bool = False,
    tail_bytes: int | None = None,
) -> AsyncIterator[SessionLog]:
    """The output of a kernel (None: the main one); with `follow` until its container ends.

    Of what is there already only the last `tail_bytes`, if given. Raises `ServerUnreachable`, also
    when the stream breaks, and `RemoteError` for a refusal.
    """
    asked = {"kernel": kernel_id, "follow": "true" if follow else None, "tail": tail_bytes}
    parameters = {name: str(value) for name, value in asked.items() if value is not None}
    path = f"/sessions/{quote(session_id, safe='')}/logs"
    async with client.content(path, parameters) as (headers, chunks):
        yield SessionLog(headers.get(TRUNCATED_HEADER, "").lower() == "true", chunks)
