"""The programs behind the server commands: composed, run until stopped."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager, suppress
from typing import Any, TypeVar

from pydantic import ValidationError

from wharfinger.client.connection import write_connection
from wharfinger.domain.errors import InvalidRequest, WharfingerError
from wharfinger.manager.api.logs import configure
from wharfinger.run.agent import run_agent
from wharfinger.run.embedded import EngineChoice, embedded, usual_engines
from wharfinger.run.manager import running_manager
from wharfinger.run.settings import ManagerSettings, RemoteAgentSettings
from wharfinger.run.superadmin import superadmin_token
from wharfinger.run.until_stopped import until_stopped

S = TypeVar("S", ManagerSettings, RemoteAgentSettings)

Say = Callable[[str], object]
"""Prints a line for the person who started the program."""


class Unusable(WharfingerError):
    """A file, a folder or an address that the program needs cannot be used."""


async def up(given: Mapping[str, Any], engines: Sequence[str], say: Say) -> None:
    """A manager and an agent per engine, with the client's file written."""
    settings = _settings(ManagerSettings, given)
    chosen = [EngineChoice.parse(text) for text in engines] or usual_engines()

    async def main(stop: asyncio.Event) -> None:
        async with AsyncExitStack() as opened:
            with _translated():
                running = await opened.enter_async_context(embedded(settings, chosen))
                file = write_connection(running.url, running.token)
            say(f"Wharfinger is up at {running.url}")
            say(f"  agents: {', '.join(running.agents)}")
            say(f"  token:  {running.token_path} (the commands find it by {file})")
            say("  next:   wharfinger agent ls, in another terminal; Ctrl-C here stops it")
            await stop.wait()

    await until_stopped(main)


async def manager(given: Mapping[str, Any], say: Say) -> None:
    """One manager of possibly several."""
    settings = _settings(ManagerSettings, given)

    async def main(stop: asyncio.Event) -> None:
        async with AsyncExitStack() as opened:
            with _translated():
                running = await opened.enter_async_context(running_manager(settings))
                _, path = await superadmin_token(running.storage, settings.data_dir)
            say(f"Manager at {running.url}; a superadmin's token is in {path}")
            await stop.wait()

    await until_stopped(main)


async def agent(given: Mapping[str, Any]) -> None:
    """One agent beside one engine."""
    settings = _settings(RemoteAgentSettings, given)

    async def work() -> None:
        with _translated():
            await run_agent(settings)

    async def main(stop: asyncio.Event) -> None:
        running = asyncio.create_task(work(), name="agent")
        told = asyncio.create_task(stop.wait(), name="stop")
        try:
            await asyncio.wait((running, told), return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                await running
        finally:
            for task in (running, told):
                task.cancel()
            with suppress(asyncio.CancelledError):
                await running

    await until_stopped(main)


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        what = error.filename or "a file or an address that is needed"
        raise Unusable(f"{what} cannot be used: {error.strerror or error}") from error


def _settings(kind: type[S], given: Mapping[str, Any]) -> S:
    """The settings, with logging configured by them; raises `InvalidRequest` naming what is off."""
    try:
        settings = kind(**given)
    except ValidationError as error:
        wrong = "; ".join(
            f"{'.'.join(map(str, entry['loc']))}: {entry['msg']}" for entry in error.errors()
        )
        raise InvalidRequest(f"settings: {wrong}") from error
    configure(json=settings.log_format == "json", level=settings.log_level)
    return settings
