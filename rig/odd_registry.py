"""A registry that misbehaves in named ways, in the test's own event loop."""

import asyncio
import gzip
import json
import ssl
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from aiohttp import web

from rig.images import OCI_CONFIG, OCI_MANIFEST, digest

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class Asked:
    """One request as it came. `authorization` is empty without that header."""

    method: str
    path: str
    authorization: str
    accept: str


class OddRegistry:
    """Answers what it was told to, at `host`; entering starts it, leaving stops it. With `tls`, by
    https.

    `log` has every request. While `challenges` are set, `/v2/` answers 401 with them to everybody
    whose `Authorization` is not among `admits`.
    """

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self.log: list[Asked] = []
        self.challenges: Sequence[str] = ()
        self.admits: set[str] = set()
        self.host = ""
        self._handlers: dict[str, Handler] = {"/v2/": answer(b"{}")}
        self._runner: web.ServerRunner | None = None

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://{self.host}"

    async def __aenter__(self) -> Self:
        self._runner = web.ServerRunner(web.Server(self._serve), shutdown_timeout=0.05)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self._tls).start()
        self.host = f"127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    def on(self, path: str, handler: Handler) -> None:
        """Let `handler` answer this path from now on."""
        self._handlers[path] = handler

    def manifest(
        self, repository: str, tag: str, document: dict[str, Any], handler: Any = None, **extra: Any
    ) -> str:
        """Serve a document under its tag and its digest; its digest."""
        raw = json.dumps(document).encode()
        make = handler or answer
        each = make(raw, **{"content_type": document.get("mediaType", "")} | extra)
        for name in (tag, digest(raw)):
            self.on(f"/v2/{repository}/manifests/{name}", each)
        return digest(raw)

    def image(self, repository: str, tag: str, handler: Any = None, **extra: Any) -> str:
        """Serve a small amd64 image; its digest."""
        config = json.dumps({"os": "linux", "architecture": "amd64"}).encode()
        self.on(f"/v2/{repository}/blobs/{digest(config)}", answer(config))
        return self.manifest(repository, tag, image_manifest(config), handler, **extra)

    def requests(self, part: str) -> list[Asked]:
        """Those whose path has `part` in it."""
        return [asked for asked in self.log if part in asked.path]

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        authorization = request.headers.get("Authorization", "")
        self.log.append(
            Asked(request.method, request.path_qs, authorization, request.headers.get("Accept", ""))
        )
        guarded = self.challenges and request.path.startswith("/v2/")
        if guarded and authorization not in self.admits:
            refused = web.json_response({"errors": [{"code": "UNAUTHORIZED"}]}, status=401)
            for challenge in self.challenges:
                refused.headers.add("WWW-Authenticate", challenge)
            return refused
        handler = self._handlers.get(request.path)
        if handler is None:
            return web.json_response({"errors": [{"code": "MANIFEST_UNKNOWN"}]}, status=404)
        return await handler(request)


def image_manifest(config: bytes, *, size: int | None = None) -> dict[str, Any]:
    """A manifest of one layer of 123 bytes that nobody serves."""
    return {
        "schemaVersion": 2,
        "mediaType": OCI_MANIFEST,
        "config": {
            "mediaType": OCI_CONFIG,
            "digest": digest(config),
            "size": len(config) if size is None else size,
        },
        "layers": [
            {
                "mediaType": "application/vnd.oci.image.layer.v1.tar+gzip",
                "digest": "sha256:" + "1" * 64,
                "size": 123,
            }
        ],
    }


def answer(
    body: bytes, *, status: int = 200, content_type: str = "application/json", **headers: str
) -> Handler:
    """Answers as it should. Headers are named with underscores for dashes."""
    named = {key.replace("_", "-"): value for key, value in headers.items()}

    async def handler(_: web.BaseRequest) -> web.StreamResponse:
        extra = {"Content-Type": content_type} if content_type else {}
        return web.Response(body=body, status=status, headers={**named, **extra})

    return handler


def gzipped(body: bytes, **options: Any) -> Handler:
    """Encodes whatever was asked for."""
    return answer(gzip.compress(body), Content_Encoding="gzip", **options)


def chunked(body: bytes, *, content_type: str = "application/json") -> Handler:
    """Sends small pieces and no length."""

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": content_type})
        response.enable_chunked_encoding()
        await response.prepare(request)
        for start in range(0, len(body), 50):
            await response.write(body[start : start + 50])
        await response.write_eof()
        return response

    return handler


def endless(_: bytes = b"", *, content_type: str = "application/json") -> Handler:
    """Never stops sending."""

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": content_type})
        await response.prepare(request)
        while True:
            await response.write(b" " * 65536)

    return handler


def silent() -> Handler:
    """Takes the request and says nothing."""

    async def handler(_: web.BaseRequest) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    return handler


def redirect(location: str, status: int = 307) -> Handler:
    """Sends the client elsewhere."""
    return answer(b"", status=status, Location=location)


def first(*handlers: Handler) -> Handler:
    """Each in turn, the last for ever."""
    left = list(handlers)

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        current = left.pop(0) if len(left) > 1 else left[0]
        return await current(request)

    return handler
