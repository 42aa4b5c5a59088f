"""Everything in one process: the manager, and one agent per engine, on one data folder."""

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import structlog

from wharfinger.agent.engine.docker import DockerEngine
from wharfinger.agent.service import Agent, AgentSettings
from wharfinger.domain.errors import InvalidRequest, WharfingerError
from wharfinger.run.alone import alone
from wharfinger.run.manager import running_manager
from wharfinger.run.settings import ManagerSettings
from wharfinger.run.superadmin import superadmin_token

log = structlog.get_logger()

_USUAL_SOCKETS = ("/var/run/docker.sock", "/run/podman/podman.sock")
_AGAIN_SECONDS = 5.0
"""How long an agent that failed stays down."""
_JOIN_LABEL = "embedded agents"
_GROUP = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """An engine and the scaling group its agent belongs to."""

    scaling_group: str
    url: str

    @classmethod
    def parse(cls, text: str) -> "EngineChoice":
        """From `[SGROUP=]URL`."""
        group, equals, url = text.partition("=")
        if not equals:
            group, url = "default", text
        if not _GROUP.fullmatch(group) or not url:
            raise InvalidRequest(
                f"{text!r} is not [SGROUP=]URL; one looks like gpu=unix:///var/run/docker.sock"
            )
        return cls(group, url)


@dataclass(frozen=True, slots=True)
class Embedded:
    """What runs: where the API is, the superadmin's token and its file, the agents' ids."""

    url: str
    token: str
    token_path: Path
    agents: Sequence[str]


def usual_engines() -> list[EngineChoice]:
    """The engine of this machine: DOCKER_HOST, else Docker's or Podman's usual socket.

    Raises `InvalidRequest` when there is none.
    """
    named = os.environ.get("DOCKER_HOST")
    if named:
        return [EngineChoice("default", named)]
    for path in _USUAL_SOCKETS:
        if Path(path).is_socket():
            return [EngineChoice("default", f"unix://{path}")]
    raise InvalidRequest(
        f"no engine was found at {' or '.join(_USUAL_SOCKETS)}: "
        "start one, or name one with --engine unix:///path/to/engine.sock"
    )


@asynccontextmanager
async def embedded(
    settings: ManagerSettings, engines: Sequence[EngineChoice]
) -> AsyncIterator[Embedded]:
    """A manager and its agents for as long as the context is open.

    Raises `Conflict` when another process uses the data folder, `InvalidRequest` for an engine's
    address that is none.
    """
    settings.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    with alone(settings.data_dir / "lock"):
        named = _named(settings.data_dir, engines)
        async with running_manager(settings, sole=True) as manager:
            token, token_path = await superadmin_token(manager.storage, settings.data_dir)
            await manager.access.revoke_join_tokens(_JOIN_LABEL)  # the last start's
            join = await manager.access.create_join_token(_JOIN_LABEL)
            running = [
                asyncio.create_task(
                    _run_agent(
                        AgentSettings(
                            agent_id=agent_id,
                            scaling_group=choice.scaling_group,
                            manager_url=manager.url,
                            join_token=join.token,
                            state_dir=settings.data_dir / "agents" / agent_id,
                            cpu=settings.agent_cpu,
                            mem=settings.agent_mem,
                            gpu=settings.agent_gpu,
                            network=settings.agent_network,
                        ),
                        engine,
                    ),
                    name=f"agent {agent_id}",
                )
                for agent_id, choice, engine in named
            ]
            try:
                yield Embedded(manager.url, token, token_path, [name for name, _, _ in named])
            finally:
                for task in running:
                    task.cancel()
                await asyncio.gather(*running, return_exceptions=True)


async def _run_agent(settings: AgentSettings, engine: DockerEngine) -> None:
    """Run one agent for as long as the manager wants it; the others go on in any case."""
    try:
        while True:
            try:
                await Agent(settings, engine).run()
            except WharfingerError as error:
                log.warning("agent ended", agent=settings.agent_id, error=error.to_json())
                return
            except Exception:  # a full disk, or a defect
                log.exception("agent failed, it starts anew soon", agent=settings.agent_id)
            await asyncio.sleep(_AGAIN_SECONDS)
    finally:
        await engine.close()


def _named(
    data_dir: Path, engines: Sequence[EngineChoice]
) -> list[tuple[str, EngineChoice, DockerEngine]]:
    """Each engine, with a name for its agent that is the same at every start."""
    path = data_dir / "engines.json"
    names = _read_names(path) if path.exists() else {}
    named = []
    for choice in engines:
        key = f"{choice.scaling_group}={choice.url}"
        if key not in names:
            number = 1
            while f"{choice.scaling_group}-{number}" in names.values():
                number += 1
            names[key] = f"{choice.scaling_group}-{number}"
        named.append((names[key], choice, DockerEngine(choice.url)))
    if len({name for name, _, _ in named}) != len(named):
        raise InvalidRequest("an engine is named twice")
    draft = path.with_name(f".{path.name}")  # a full disk or a kill leaves the file as it was
    draft.write_text(json.dumps(names, indent=2) + "\n")
    draft.replace(path)
    return named


def _read_names(path: Path) -> dict[str, str]:
    try:
        return {str(key): str(name) for key, name in json.loads(path.read_text()).items()}
    except (ValueError, AttributeError) as error:
        raise InvalidRequest(
            f"{path} is damaged: put {{}} in it, and the agents are named anew"
        ) from error
