"""The calls to agents: one POST per method over kept-alive HTTP/1.1, each with a deadline."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import aiohttp
from pydantic import ValidationError

from wharfinger.contracts.rpc import (
    CANCEL,
    CHECK_AND_PULL,
    REMOVE_IMAGES,
    Call,
    CancelCall,
    CancelReply,
    CheckAndPullCall,
    CheckAndPullReply,
    PullAnswer,
    PullOrder,
    RemovalAnswer,
    RemovalOrder,
    RemoveImagesCall,
    RemoveImagesReply,
)
from wharfinger.contracts.wire import Wire
from wharfinger.domain.errors import WharfingerError
from wharfinger.manager.catalogue.vault import Vault, VaultError
from wharfinger.manager.fleet.views import AgentContact

Reply = TypeVar("Reply", bound=Wire)

_GRACE = 5.0
"""Seconds beyond its deadline that a call may take: the way there and back."""
_LARGEST_REPLY = 8 * 1024 * 1024
_CONNECTIONS = 256
"""At most: well below the 1,024 open files a process usually has."""


class AgentUnreachable(WharfingerError):
    """The agent does not answer its calls."""


class AgentCalls:
    """Calls agents by their present contact.

    `contact` looks an agent up (None when there is none); every method raises `AgentUnreachable`
    with what was met, also when another incarnation answers: the next try looks up anew.
    """

    def __init__(
        self, contact: Callable[[str], Awaitable[AgentContact | None]], vault: Vault
    ) -> None:
        self._contact = contact
        self._vault = vault
        self._session: aiohttp.ClientSession | None = None

    async def check_and_pull(
        self, agent_id: str, orders: Sequence[PullOrder], *, deadline: float = 20.0
    ) -> tuple[str, Sequence[PullAnswer]]:
        """The incarnation that answered, and its answers."""
        contact = await self._look_up(agent_id)
        call = CheckAndPullCall(
            incarnation=contact.incarnation, deadline_seconds=deadline, orders=tuple(orders)
        )
        reply = await self._post(contact, CHECK_AND_PULL, call, CheckAndPullReply)
        return contact.incarnation, reply.answers

    async def remove_images(
        self, agent_id: str, orders: Sequence[RemovalOrder], *, deadline: float = 20.0
    ) -> Sequence[RemovalAnswer]:
        """The state of each removal, at the deadline at the latest."""
        contact = await self._look_up(agent_id)
        call = RemoveImagesCall(
            incarnation=contact.incarnation, deadline_seconds=deadline, orders=tuple(orders)
        )
        return (await self._post(contact, REMOVE_IMAGES, call, RemoveImagesReply)).answers

    async def cancel(
        self, agent_id: str, attempt_ids: Sequence[str], *, deadline: float = 10.0
    ) -> Sequence[PullAnswer]:
        """The state of each attempt once its pull has stopped or goes on for others."""
        contact = await self._look_up(agent_id)
        call = CancelCall(
            incarnation=contact.incarnation,
            deadline_seconds=deadline,
            attempt_ids=tuple(attempt_ids),
        )
        return (await self._post(contact, CANCEL, call, CancelReply)).answers

    async def close(self) -> None:
        """Close every connection."""
        if self._session is not None:
            await self._session.close()

    async def _look_up(self, agent_id: str) -> AgentContact:
        contact = await self._contact(agent_id)
        if contact is None:
            raise AgentUnreachable(f"there is no agent {agent_id!r} any more")
        return contact

    async def _post(
        self, contact: AgentContact, path: str, call: Call, reply: type[Reply]
    ) -> Reply:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=_CONNECTIONS, keepalive_timeout=15)
            )
        try:
            async with self._session.post(
                contact.address + path,
                data=call.model_dump_json(by_alias=True).encode(),
                headers={
                    "Authorization": f"Bearer {self._vault.decrypt(contact.call_token_encrypted)}",
                    "Content-Type": "application/json",
                },
                timeout=aiohttp.ClientTimeout(
                    total=call.deadline_seconds + _GRACE, sock_connect=_GRACE
                ),
                allow_redirects=False,
            ) as response:
                body = await _bounded(response)
                if response.status != 200:  # noqa: PLR2004
                    raise AgentUnreachable(
                        f"agent {contact.id} answered {response.status}: {body[:300]!r}"
                    )
                return reply.model_validate_json(body)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise AgentUnreachable(
                f"agent {contact.id} at {contact.address} does not answer: "
                f"{str(error) or type(error).__name__}"
            ) from error
        except VaultError as error:
            raise AgentUnreachable(
                f"agent {contact.id} cannot be called until its process registers anew: "
                f"{error.message}"
            ) from error
        except ValidationError as error:
            raise AgentUnreachable(
                f"agent {contact.id} answered what is no {reply.__name__}: {error}"
            ) from error


async def _bounded(response: aiohttp.ClientResponse) -> bytes:
    body = bytearray()
    async for chunk in response.content.iter_chunked(64 * 1024):
        body += chunk
        if len(body) > _LARGEST_REPLY:
            raise AgentUnreachable(f"the reply is longer than {_LARGEST_REPLY} bytes")
    return bytes(body)
