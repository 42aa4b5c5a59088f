"""What a manager can be asked: one method per operation, answers as `shapes` have them."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Final, Self, cast

from wharfinger.client import documents, image_documents
from wharfinger.client.connection import Connection
from wharfinger.client.errors import RemoteError
from wharfinger.client.http import Client
from wharfinger.client.resume import OnOutage
from wharfinger.client.session_log import SessionLog, session_log
from wharfinger.client.session_watch import SessionEvent, watch_session
from wharfinger.client.shapes import (
    Agent,
    AgentHistory,
    AuditEntry,
    CatalogueImage,
    Grants,
    Image,
    KernelSpec,
    LimitChanges,
    NewToken,
    PreloadPlan,
    Protection,
    Registry,
    Session,
    Task,
    TaskHistory,
    Token,
    UnloadPlan,
    User,
    Viewer,
)
from wharfinger.client.watch import TaskEvent, watch_task

PAGE: Final = 200


class Api:
    """A manager's API; an async context manager.

    Every method raises `RemoteError` for a refusal and `ServerUnreachable`.
    """

    def __init__(self, connection: Connection) -> None:
        self._client = Client(connection)

    async def __aenter__(self) -> Self:
        await self._client.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._client.__aexit__(kind, error, traceback)

    async def preload(self, references: Sequence[str], selectors: Sequence[str]) -> str:
        """Start bringing images to agents; the id of the task."""
        return await self._start(image_documents.PRELOAD, references, selectors)

    async def unload(self, references: Sequence[str], selectors: Sequence[str]) -> str:
        """Start taking images away from agents; the id of the task."""
        return await self._start(image_documents.UNLOAD, references, selectors)

    async def tasks(
        self, *, limit: int, status: Sequence[str] = (), with_items: bool = False
    ) -> list[Task]:
        """The newest tasks first, `limit` at most; of these statuses, or of any.

        Items, which may be many, are empty unless asked for.
        """
        nodes = await self._pages(
            documents.TASKS, "tasks", limit, status=list(status) or None, withItems=with_items
        )
        return [cast("Task", {**node, "items": node.get("items", [])}) for node in nodes]

    async def task(self, task_id: str) -> TaskHistory:
        """A task with its transitions."""
        return cast("TaskHistory", await self._ask(documents.TASK, id=task_id))

    def watch_task(
        self, task_id: str, *, on_outage: OnOutage | None = None
    ) -> AsyncGenerator[TaskEvent]:
        """See `wharfinger.client.watch.watch_task`."""
        return watch_task(self._client, task_id, on_outage=on_outage)

    async def cancel_task(self, task_id: str) -> Task:
        """Ask for a task's end; it is cancelled once all its parts have stopped."""
        return cast("Task", await self._tell(documents.CANCEL_TASK, id=task_id))

    async def create_session(
        self,
        kernels: Sequence[KernelSpec],
        *,
        name: str | None = None,
        scaling_group: str | None = None,
    ) -> Session:
        """Queue a session: its kernels, the main one first."""
        created = await self._tell(
            documents.CREATE_SESSION, kernels=list(kernels), name=name, scalingGroup=scaling_group
        )
        return cast("Session", created)

    async def sessions(
        self, *, limit: int | None = None, status: Sequence[str] = (), with_logs: bool = False
    ) -> list[Session]:
        """The newest sessions first: of these statuses or of any; all, or `limit` at most.

        The kernels' transitions are empty unless asked for.
        """
        nodes = await self._pages(
            documents.SESSIONS, "sessions", limit, status=list(status) or None, withLogs=with_logs
        )
        return [
            cast(
                "Session",
                {**node, "kernels": [{"transitions": [], **each} for each in node["kernels"]]},
            )
            for node in nodes
        ]

    async def session(self, session_id: str) -> Session:
        """A session with its kernels' transitions."""
        return cast("Session", await self._ask(documents.SESSION, id=session_id))

    async def terminate_session(self, session_id: str) -> Session:
        """Ask for a session's end, whatever its state; one that has ended is answered as it is."""
        return cast("Session", await self._tell(documents.TERMINATE_SESSION, id=session_id))

    async def cancel_session(self, session_id: str, *, force: bool = False) -> Session:
        """End a session before it runs; `force` is a superadmin's, and takes effect at once."""
        cancelled = await self._tell(documents.CANCEL_SESSION, id=session_id, force=force)
        return cast("Session", cancelled)

    async def force_cancel_kernel(self, kernel_id: str) -> Session:
        """`cancel_session` with `force`, by one of its kernels; the session."""
        return cast("Session", await self._tell(documents.FORCE_CANCEL_KERNEL, id=kernel_id))

    def watch_session(
        self, session_id: str, *, on_outage: OnOutage | None = None
    ) -> AsyncGenerator[SessionEvent]:
        """See `wharfinger.client.session_watch.watch_session`."""
        return watch_session(self._client, session_id, on_outage=on_outage)

    def session_log(
        self,
        session_id: str,
        *,
        kernel_id: str | None = None,
        follow: bool = False,
        tail_bytes: int | None = None,
    ) -> AbstractAsyncContextManager[SessionLog]:
        """See `wharfinger.client.session_log.session_log`."""
        return session_log(
            self._client, session_id, kernel_id=kernel_id, follow=follow, tail_bytes=tail_bytes
        )

    async def preload_plan(
        self, references: Sequence[str], selectors: Sequence[str]
    ) -> list[PreloadPlan]:
        """What a preload would do, host by host."""
        plans = await self._plan(image_documents.PRELOAD_PLAN, references, selectors)
        return cast("list[PreloadPlan]", plans)

    async def unload_plan(
        self, references: Sequence[str], selectors: Sequence[str]
    ) -> list[UnloadPlan]:
        """What an unload would do, host by host."""
        plans = await self._plan(image_documents.UNLOAD_PLAN, references, selectors)
        return cast("list[UnloadPlan]", plans)

    async def images(
        self,
        *,
        reference: str | None = None,
        registry: str | None = None,
        statuses: Sequence[str] = (),
        agent_id: str | None = None,
    ) -> list[Image]:
        """All images; those whose reference contains `reference`, of one registry, of these
        statuses, those on one agent."""
        narrowed = {
            "reference": reference,
            "registry": registry,
            "statuses": list(statuses) or None,
            "agentId": agent_id,
        }
        return cast(
            "list[Image]",
            await self._pages(image_documents.IMAGES, "images", None, **narrowed),
        )

    async def register_image(self, reference: str) -> CatalogueImage:
        """Let users ask for an image; it means what its registry says now."""
        answer = await self._tell(image_documents.REGISTER, reference=reference)
        return cast("CatalogueImage", answer)

    async def forget_image(self, reference: str) -> CatalogueImage:
        """Let users no longer ask for an image; no rescan brings it back."""
        answer = await self._tell(image_documents.FORGET, reference=reference)
        return cast("CatalogueImage", answer)

    async def protect_image(self, reference: str) -> Protection:
        """Keep an image from being unloaded."""
        return cast("Protection", await self._tell(image_documents.PROTECT, reference=reference))

    async def unprotect_image(self, reference: str) -> Protection:
        """Let an image be unloaded again."""
        return cast("Protection", await self._tell(image_documents.UNPROTECT, reference=reference))

    async def rescan_images(self, registry: str | None = None, *, wait: bool = False) -> str:
        """Start to read one registry's images into the catalogue, or all registries'; the id of
        the task. With `wait` it is queued behind downloads, which else refuse it."""
        started = await self._tell(image_documents.RESCAN, registry=registry, wait=wait)
        return str(started["taskId"])

    async def grants(self) -> list[Grants]:
        """The paths of images that are not for everybody."""
        answer = await self._client.query(image_documents.GRANTS)
        return cast("list[Grants]", answer["imageGrants"])

    async def grant_images(
        self, path: str, *, users: Sequence[str] = (), groups: Sequence[str] = ()
    ) -> Grants:
        """Let users and groups use the images below a path, which is then for them alone."""
        answer = await self._tell(
            image_documents.GRANT, path=path, users=list(users), groups=list(groups)
        )
        return cast("Grants", answer)

    async def revoke_images(
        self, path: str, *, users: Sequence[str] = (), groups: Sequence[str] = ()
    ) -> Grants:
        """Take the images below a path from users and groups; with nobody named, open it to all."""
        answer = await self._tell(
            image_documents.REVOKE, path=path, users=list(users), groups=list(groups)
        )
        return cast("Grants", answer)

    async def agents(self) -> list[Agent]:
        """All agents."""
        return cast("list[Agent]", (await self._client.query(documents.AGENTS))["agents"])

    async def agent(self, agent_id: str) -> AgentHistory:
        """An agent with its images and transitions."""
        return cast("AgentHistory", await self._ask(documents.AGENT, id=agent_id))

    async def cordon_agent(self, agent_id: str) -> Agent:
        """Let nothing new come to an agent."""
        return cast("Agent", await self._tell(documents.CORDON_AGENT, id=agent_id))

    async def uncordon_agent(self, agent_id: str) -> Agent:
        """Take a cordon back."""
        return cast("Agent", await self._tell(documents.UNCORDON_AGENT, id=agent_id))

    async def remove_agent(self, agent_id: str) -> Agent:
        """Retire an agent."""
        return cast("Agent", await self._tell(documents.REMOVE_AGENT, id=agent_id))

    async def create_join_token(self, label: str) -> NewToken:
        """A token for an agent to join with."""
        return cast("NewToken", await self._tell(documents.CREATE_JOIN_TOKEN, label=label))

    async def registries(self) -> list[Registry]:
        """The registries the manager knows."""
        answer = await self._client.query(documents.REGISTRIES)
        return cast("list[Registry]", answer["registries"])

    async def add_registry(
        self, url: str, *, username: str | None = None, password: str | None = None
    ) -> Registry:
        """Make a registry known, or change what is known of it."""
        return cast(
            "Registry",
            await self._tell(documents.ADD_REGISTRY, url=url, username=username, password=password),
        )

    async def remove_registry(self, host: str) -> Registry:
        """Forget a registry."""
        return cast("Registry", await self._tell(documents.REMOVE_REGISTRY, host=host))

    async def users(self) -> list[User]:
        """All users."""
        return cast("list[User]", (await self._client.query(documents.USERS))["users"])

    async def viewer(self) -> Viewer:
        """Whose token this is."""
        return cast("Viewer", (await self._client.query(documents.VIEWER))["viewer"])

    async def set_user_limits(self, name: str, changes: LimitChanges) -> User:
        """Change what a user may have."""
        return cast("User", await self._tell(documents.SET_USER_LIMITS, name=name, **changes))

    async def change_user_groups(
        self, name: str, *, add: Sequence[str] = (), remove: Sequence[str] = ()
    ) -> User:
        """Put a user into groups, and take them out of others."""
        answer = await self._tell(
            documents.CHANGE_USER_GROUPS, name=name, add=list(add), remove=list(remove)
        )
        return cast("User", answer)

    async def audit(
        self,
        *,
        actor: str | None = None,
        action: str | None = None,
        target: str | None = None,
        limit: int,
    ) -> list[AuditEntry]:
        """The newest deeds first, `limit` at most: of this user, of this kind (or its first word),
        to what contains `target`."""
        nodes = await self._pages(
            documents.AUDIT, "auditEntries", limit, actor=actor, action=action, target=target
        )
        return cast("list[AuditEntry]", nodes)

    async def add_user(self, name: str, *, role: str) -> User:
        """Add a user."""
        return cast("User", await self._tell(documents.ADD_USER, name=name, role=role))

    async def remove_user(self, name: str) -> User:
        """Remove a user and all their tokens."""
        return cast("User", await self._tell(documents.REMOVE_USER, name=name))

    async def tokens(self) -> list[Token]:
        """One's own tokens; a superadmin's view has everybody's."""
        return cast("list[Token]", (await self._client.query(documents.TOKENS))["tokens"])

    async def create_token(self, user: str, *, label: str) -> NewToken:
        """A token for a user."""
        return cast("NewToken", await self._tell(documents.CREATE_TOKEN, user=user, label=label))

    async def revoke_token(self, token_id: str) -> Token:
        """End a token."""
        return cast("Token", await self._tell(documents.REVOKE_TOKEN, id=token_id))

    async def _start(
        self, document: str, references: Sequence[str], selectors: Sequence[str]
    ) -> str:
        started = await self._tell(
            document, references=list(references), targetAgents=list(selectors)
        )
        return str(started["taskId"])

    async def _plan(
        self, document: str, references: Sequence[str], selectors: Sequence[str]
    ) -> Any:
        planned = await self._ask(
            document, references=list(references), targetAgents=list(selectors)
        )
        return planned["items"]

    async def _ask(self, document: str, **variables: Any) -> dict[str, Any]:
        return _granted((await self._client.query(document, **variables))["answer"])

    async def _tell(self, document: str, **variables: Any) -> dict[str, Any]:
        return _granted((await self._client.mutate(document, **variables))["answer"])

    async def _pages(
        self, document: str, field: str, limit: int | None, **variables: Any
    ) -> list[dict[str, Any]]:
        nodes: list[dict[str, Any]] = []
        after: str | None = None
        while limit is None or len(nodes) < limit:
            first = PAGE if limit is None else min(PAGE, limit - len(nodes))
            answer = await self._client.query(document, first=first, after=after, **variables)
            page = answer[field]
            nodes += page["nodes"]
            if not page["pageInfo"]["hasNextPage"]:
                break
            after = page["pageInfo"]["endCursor"]
        return nodes


def _granted(answer: dict[str, Any]) -> dict[str, Any]:
    """The answer of a union, unless it is one of the named failures."""
    if "failureClass" in answer:
        raise RemoteError(answer["failureClass"], answer["failureMessage"], answer["failureDetail"])
    return answer
