"""The calls to agents: one POST per method over kept-alive HTTP/1.1, each with a deadline."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
)
from http import HTTPStatus
from typing import TypeVar

import aiohttp
from pydantic import ValidationError

from wharfinger.contracts.rpc import (
    CANCEL,
    CHECK_AND_PULL,
    CREATE_KERNELS,
    END_KERNELS,
    KERNEL_LOG,
    REMOVE_IMAGES,
    REMOVE_KERNELS,
    SURVEY_PULLS,
    SURVEY_REMOVALS,
    Call,
    CancelCall,
    CancelReply,
    CheckAndPullCall,
    CheckAndPullReply,
    CreateAnswer,
    CreateKernelsCall,
    CreateKernelsReply,
    EndAnswer,
    EndKernelsCall,
    EndKernelsReply,
    EndOrder,
    KernelLogCall,
    KernelOrder,
    KernelRemovalAnswer,
    PullAnswer,
    PullOrder,
    RemovalAnswer,
    RemovalOrder,
    RemovalSurvey,
    RemoveImagesCall,
    RemoveImagesReply,
    RemoveKernelsCall,
    RemoveKernelsReply,
    SurveyPullsCall,
    SurveyPullsReply,
    SurveyRemovalsCall,
    SurveyRemovalsReply,
)
from wharfinger.contracts.wire import Wire
from wharfinger.domain.errors import UnknownId, WharfingerError
from wharfinger.manager.catalogue.vault import Vault, VaultError
from wharfinger.manager.fleet.views import AgentContact

Reply = TypeVar("Reply", bound=Wire)

_GRACE = 5.0
"""Seconds beyond its deadline that a call may take: the way there and back."""
LARGEST_REPLY = 8 * 1024 * 1024
"""Bytes: a few logs of ended containers, or thousands of other answers."""
_LOG_STARTS_WITHIN = 10.0
_SAID = 300
"""Characters that are told of an agent's refusal."""
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

    async def survey_removals(
        self,
        agent_id: str,
        orders: Sequence[RemovalOrder],
        *,
        want_bytes: bool = False,
        deadline: float = 20.0,
    ) -> Sequence[RemovalSurvey]:
        """What each removal would meet and do now; nothing is changed."""
        contact = await self._look_up(agent_id)
        call = SurveyRemovalsCall(
            incarnation=contact.incarnation,
            deadline_seconds=deadline,
            orders=tuple(orders),
            want_bytes=want_bytes,
        )
        return (await self._post(contact, SURVEY_REMOVALS, call, SurveyRemovalsReply)).surveys

    async def survey_pulls(
        self, agent_id: str, orders: Sequence[PullOrder], *, deadline: float = 20.0
    ) -> SurveyPullsReply:
        """What each pull would meet and take now, and the disk; nothing is changed."""
        contact = await self._look_up(agent_id)
        call = SurveyPullsCall(
            incarnation=contact.incarnation, deadline_seconds=deadline, orders=tuple(orders)
        )
        return await self._post(contact, SURVEY_PULLS, call, SurveyPullsReply)

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

    async def create_kernels(
        self, agent_id: str, orders: Sequence[KernelOrder], *, deadline: float = 30.0
    ) -> Sequence[CreateAnswer]:
        """The state of each container, at the deadline at the latest."""
        contact = await self._look_up(agent_id)
        call = CreateKernelsCall(
            incarnation=contact.incarnation, deadline_seconds=deadline, orders=tuple(orders)
        )
        return (await self._post(contact, CREATE_KERNELS, call, CreateKernelsReply)).answers

    async def end_kernels(
        self, agent_id: str, orders: Sequence[EndOrder], *, deadline: float = 20.0
    ) -> Sequence[EndAnswer]:
        """The state of each container, at the deadline at the latest; none is removed."""
        contact = await self._look_up(agent_id)
        call = EndKernelsCall(
            incarnation=contact.incarnation, deadline_seconds=deadline, orders=tuple(orders)
        )
        return (await self._post(contact, END_KERNELS, call, EndKernelsReply)).answers

    async def remove_kernels(
        self, agent_id: str, kernel_ids: Sequence[str], *, deadline: float = 20.0
    ) -> Sequence[KernelRemovalAnswer]:
        """Which containers are gone."""
        contact = await self._look_up(agent_id)
        call = RemoveKernelsCall(
            incarnation=contact.incarnation,
            deadline_seconds=deadline,
            kernel_ids=tuple(kernel_ids),
        )
        return (await self._post(contact, REMOVE_KERNELS, call, RemoveKernelsReply)).answers

    @asynccontextmanager
    async def kernel_log(
        self, agent_id: str, kernel_id: str, *, follow: bool, tail_bytes: int
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """The output of a container in pieces. Raises `UnknownId` when there is none, and
        `AgentUnreachable`, from the iterator as well. Leaving closes the connection."""
        contact = await self._look_up(agent_id)
        call = KernelLogCall(
            incarnation=contact.incarnation,
            deadline_seconds=_LOG_STARTS_WITHIN,
            kernel_id=kernel_id,
            follow=follow,
            tail_bytes=tail_bytes,
        )
        async with AsyncExitStack() as opened:
            with _translated(contact):
                async with asyncio.timeout(_LOG_STARTS_WITHIN):
                    response = await opened.enter_async_context(
                        self._request(contact, KERNEL_LOG, call)
                    )
                    await _check(contact, response, kernel_id)
            yield _pieces(contact, response)

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
        with _translated(contact):
            async with (
                asyncio.timeout(call.deadline_seconds + _GRACE),
                self._request(contact, path, call) as response,
            ):
                body = await _bounded(response)
                if response.status != HTTPStatus.OK:
                    raise _refused(contact, response.status, body)
                return _read(contact, reply, body)

    def _request(
        self, contact: AgentContact, path: str, call: Call
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        """The request of a call; the caller limits its time."""
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=_CONNECTIONS, keepalive_timeout=15)
            )
        return self._session.post(
            contact.address + path,
            data=call.model_dump_json(by_alias=True).encode(),
            headers={
                "Authorization": f"Bearer {self._vault.decrypt(contact.call_token_encrypted)}",
                "Content-Type": "application/json",
            },
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_GRACE),
            allow_redirects=False,
        )


@contextmanager
def _translated(contact: AgentContact) -> Iterator[None]:
    """What goes wrong on the way, as `AgentUnreachable`."""
    try:
        yield
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        raise AgentUnreachable(
            f"agent {contact.id} at {contact.address} does not answer: "
            f"{str(error) or type(error).__name__}"
        ) from error
    except VaultError as error:
        raise AgentUnreachable(
            f"agent {contact.id} cannot be called until its process registers anew: {error.message}"
        ) from error


def _refused(contact: AgentContact, status: int, body: bytes) -> AgentUnreachable:
    try:
        answer = json.loads(body)
    except ValueError:
        answer = None
    match answer:
        case {"error": {"message": str(message)}}:
            said = message
        case _:
            said = body.decode(errors="replace")
    return AgentUnreachable(f"agent {contact.id} answered {status}: {said[:_SAID]}")


def _read(contact: AgentContact, reply: type[Reply], body: bytes) -> Reply:
    try:
        return reply.model_validate_json(body)
    except ValidationError as error:
        raise AgentUnreachable(
            f"agent {contact.id} answered what is no {reply.__name__}: {error}"
        ) from error


async def _check(contact: AgentContact, response: aiohttp.ClientResponse, kernel_id: str) -> None:
    if response.status == HTTPStatus.NOT_FOUND:
        raise UnknownId(f"there is no container of kernel {kernel_id} on its agent", id=kernel_id)
    if response.status != HTTPStatus.OK:
        raise _refused(contact, response.status, await _bounded(response))


async def _pieces(
    contact: AgentContact, response: aiohttp.ClientResponse
) -> AsyncGenerator[bytes, None]:
    with _translated(contact):
        async for piece in response.content.iter_any():
            yield piece


async def _bounded(response: aiohttp.ClientResponse) -> bytes:
    body = bytearray()
    async for chunk in response.content.iter_chunked(64 * 1024):
        body += chunk
        if len(body) > LARGEST_REPLY:
            raise AgentUnreachable(f"the reply is longer than {LARGEST_REPLY} bytes")
    return bytes(body)
