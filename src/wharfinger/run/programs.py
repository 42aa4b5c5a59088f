"""The programs behind the server commands: composed, run until stopped."""

import asyncio
import errno
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager, suppress
from typing import Any, Final, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from wharfinger.client.connection import last_connection, write_connection
from wharfinger.client.http import is_alive
from wharfinger.domain.errors import InvalidRequest, WharfingerError
from wharfinger.manager.api.logs import configure
from wharfinger.manager.api.serve import CannotListen
from wharfinger.run.agent import run_agent
from wharfinger.run.embedded import EngineChoice, embedded, usual_engines
from wharfinger.run.manager import running_manager
from wharfinger.run.settings import ManagerSettings, RemoteAgentSettings
from wharfinger.run.superadmin import superadmin_token
from wharfinger.run.until_stopped import until_stopped

S = TypeVar("S", ManagerSettings, RemoteAgentSettings)

Say = Callable[[str], object]
"""Prints a line for the person who started the program."""

_OTHER_PORT: Final = "choose another one with --port (0 takes any that is free)"


class Unusable(WharfingerError):
    """A file, a folder or an address that the program needs cannot be used."""


async def up(given: Mapping[str, Any], engines: Sequence[str], say: Say, note: Say) -> None:
    """A manager and an agent per engine, with the client's file written."""
    settings = _settings(ManagerSettings, given)
    chosen = [EngineChoice.parse(text) for text in engines] or usual_engines()

    async def main(stop: asyncio.Event) -> None:
        async with AsyncExitStack() as opened:
            with _translated():
                running = await opened.enter_async_context(embedded(settings, chosen))
                before = last_connection()
                file = write_connection(running.url, running.token)
            say(f"Wharfinger is up at {running.url}")
            say(f"  agents: {', '.join(running.agents)}")
            say(f"  token:  {running.token_path} (the commands find it by {file})")
            say("  next:   wharfinger agent ls, in another terminal; Ctrl-C here stops it")
            if before and before.url != running.url and await is_alive(before.url):
                note(
                    f"the commands spoke to {before.url} before, which still runs; now to this one"
                )
            await stop.wait()
            note("stopping")
        note("stopped")

    await until_stopped(main)


async def manager(given: Mapping[str, Any], say: Say, note: Say) -> None:
    """One manager of possibly several."""
    settings = _settings(ManagerSettings, given)

    async def main(stop: asyncio.Event) -> None:
        async with AsyncExitStack() as opened:
            with _translated():
                running = await opened.enter_async_context(running_manager(settings))
                _, path = await superadmin_token(running.storage, settings.data_dir)
            say(f"Manager at {running.url}; a superadmin's token is in {path}")
            await stop.wait()
            note("stopping")
        note("stopped")

    await until_stopped(main)


async def agent(given: Mapping[str, Any], say: Say, note: Say) -> None:
    """One agent beside one engine."""
    settings = _settings(RemoteAgentSettings, given)

    def joined() -> None:
        say(
            f"Agent {settings.id} is known to {settings.manager_url}; its engine is {settings.engine}"
        )

    async def work() -> None:
        with _translated():
            await run_agent(settings, joined)

    async def main(stop: asyncio.Event) -> None:
        running = asyncio.create_task(work(), name="agent")
        told = asyncio.create_task(stop.wait(), name="stop")
        try:
            await asyncio.wait((running, told), return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                await running
            note("stopping")
        finally:
            for task in (running, told):
                task.cancel()
            with suppress(asyncio.CancelledError):
                await running
        note("stopped")

    await until_stopped(main)


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except CannotListen as error:
        raise Unusable(f"{error.message}; {_OTHER_PORT}", **error.detail) from error
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise Unusable(f"cannot listen: {error.strerror}; {_OTHER_PORT}") from error
        what = error.filename or "a file or an address that is needed"
        raise Unusable(f"{what} cannot be used: {error.strerror or error}") from error


def _settings(kind: type[S], given: Mapping[str, Any]) -> S:
    """The settings, with logging configured by them; raises `InvalidRequest` naming what is off."""
    try:
        settings = kind(**given)
    except ValidationError as error:
        wrong = "; ".join(_problem(kind, entry) for entry in error.errors())
        raise InvalidRequest(wrong) from error
    configure(json=settings.log_format == "json", level=settings.log_level)
    return settings


def _problem(kind: type[S], entry: ErrorDetails) -> str:
    """What is off with one setting. All that must be given have an option, too."""
    name = str(entry["loc"][0])
    variable = f"{kind.model_config.get('env_prefix', '')}{name}".upper()
    if entry["type"] == "missing":
        return f"--{name.replace('_', '-')} or {variable} is needed"
    return f"{variable}: {entry['msg']}"
