"""A daemon that goes silent in the middle of a log."""

import asyncio

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from wharfinger.agent.engine.client import Limits
from wharfinger.agent.engine.docker import DockerEngine
from wharfinger.agent.engine.port import EngineError

BEGUN = b"\x01\0\0\0\0\0\0\x05abc"
"""A frame of a log that holds five bytes, and three of them."""


async def _version(_: web.Request) -> web.Response:
    return web.json_response({"ApiVersion": "1.41", "MinAPIVersion": "1.12"})


async def _container(_: web.Request) -> web.Response:
    return web.json_response({"Id": "c1"})


async def _log(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    await response.write(BEGUN)
    await asyncio.Event().wait()
    return response


def _daemon() -> TestServer:
    daemon = web.Application()
    daemon.router.add_get("/version", _version)
    daemon.router.add_get("/v1.41/containers/one/json", _container)
    daemon.router.add_get("/v1.41/containers/one/logs", _log)
    return TestServer(daemon)


async def test_a_log_that_is_read_and_goes_silent_is_given_up() -> None:
    async with _daemon() as server:
        engine = DockerEngine(f"tcp://127.0.0.1:{server.port}", Limits(read=0.2))
        async with asyncio.timeout(5), engine.container_log("one", follow=False) as pieces:
            assert await anext(aiter(pieces)) == b"abc"
            with pytest.raises(EngineError, match="does not answer in time"):
                await anext(aiter(pieces))
        await engine.close()
