"""Reading request bodies: bounded in size and time, JSON in UTF-8 and nothing else."""

import asyncio
import json
from typing import Any, Final, NoReturn

from fastapi import Request

from wharfinger.domain.errors import InvalidRequest
from wharfinger.manager.api.errors import TooLarge, TooSlow

READ_SECONDS: Final = 30.0
"""How long a client may take to send a body."""


async def read_body(request: Request, limit: int) -> bytes:
    """The whole body; raises `TooLarge` beyond `limit` bytes, unread when its length was stated."""
    stated = request.headers.get("content-length", "")
    if stated.isdecimal() and int(stated) > limit:
        raise _too_large(limit)
    body = bytearray()
    try:
        async with asyncio.timeout(READ_SECONDS):
            async for chunk in request.stream():
                body += chunk
                if len(body) > limit:
                    raise _too_large(limit)
    except TimeoutError:
        raise TooSlow(f"The body did not arrive within {READ_SECONDS:g} s") from None
    return bytes(body)


def parse_json(body: bytes) -> Any:
    """The JSON document; raises `InvalidRequest` saying where it is not one.

    Refused as well, since the database could not keep them: NUL characters and halves of
    surrogate pairs.
    """
    try:
        text = body.decode("utf-8")
        document = json.loads(text, parse_constant=_no_constant)
        json.dumps(document, ensure_ascii=False).encode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"The body is not UTF-8: byte {error.start} is wrong") from None
    except UnicodeEncodeError:
        raise InvalidRequest("A string holds half of a surrogate pair") from None
    except RecursionError:
        raise InvalidRequest("The body is nested too deeply") from None
    except ValueError as error:
        raise InvalidRequest(f"The body is not JSON: {error}") from None
    return document


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _too_large(limit: int) -> TooLarge:
    return TooLarge(f"The body is larger than {limit} bytes", limit=limit)
