"""One repository of a registry: documents that are what their digests say."""

import asyncio
import hashlib
from http import HTTPStatus
from typing import Final, Protocol

from wharfinger.domain.failures import FailureClass, FailureError
from wharfinger.domain.references import Reference
from wharfinger.registry.failures import failure
from wharfinger.registry.manifests import (
    ACCEPT,
    CONFIG_LIMIT,
    MANIFEST_LIMIT,
    Descriptor,
    ImageIndex,
    ImageManifest,
    is_digest,
    parse_manifest,
)
from wharfinger.registry.transport import Answer

_HEAD_REFUSED: Final = frozenset({FailureClass.UNSUPPORTED, FailureClass.REGISTRY_ERROR})
_LARGE: Final = 1024 * 1024


class Fetch(Protocol):
    """An authorised GET (or HEAD) of a path of the registry, answered with status 200 or a
    `FailureError`; with status 304 where the entity tag is still `unless`."""

    async def __call__(
        self,
        path: str,
        *,
        asked: str,
        size_limit: int,
        accept: str,
        method: str = "GET",
        unless: str | None = None,
    ) -> Answer:
        """Fetch it."""


class Repository:
    """Reads the repository of `reference`. `large` lets one large config in at a time."""

    def __init__(self, fetch: Fetch, reference: Reference, large: asyncio.Semaphore) -> None:
        self._fetch = fetch
        self._reference = reference
        self._large = large

    async def manifest(self, name: str) -> tuple[str, ImageManifest | ImageIndex]:
        """The document under a tag or a digest, with its digest.

        That digest is computed from what came, then compared with the one asked for and with the
        header's: a difference is `corrupt`.
        """
        asked = self._asked(name)
        answer = await self._fetch(
            f"{self._reference.repository}/manifests/{name}",
            asked=asked,
            size_limit=MANIFEST_LIMIT,
            accept=ACCEPT,
        )
        algorithm = name.partition(":")[0] if is_digest(name) else "sha256"
        digest = _digest(answer.body, algorithm)
        if is_digest(name):
            _compare(answer.body, name, f"{asked}: the registry answered another document")
        stated = answer.headers.get("Docker-Content-Digest", "")
        if is_digest(stated):
            _compare(answer.body, stated, f"{asked}: the digest the registry states is wrong")
        content_type = answer.headers.get("Content-Type", "").partition(";")[0].strip()
        return digest, parse_manifest(answer.body, content_type, asked=asked)

    async def digest(self, name: str, known: str | None) -> str:
        """The digest of a tag or digest as it is now, by HEAD.

        What a new one is good for shows when its document is read. `known` is what a tag meant
        before: registries then need not look it up. Of a digest they would say that nothing
        changed, without a look whether they have it.

        Where HEAD tells nothing, the document is read, and its digest computed.
        """
        try:
            answer = await self._fetch(
                f"{self._reference.repository}/manifests/{name}",
                asked=self._asked(name),
                size_limit=0,
                accept=ACCEPT,
                method="HEAD",
                # what the distribution project's registry and most others give as entity tag
                unless=None if known is None else f'"{known}"',
            )
        except FailureError as error:
            if error.failure.failure_class not in _HEAD_REFUSED:
                raise
            return (await self.manifest(name))[0]  # some registries refuse HEAD
        if answer.status == HTTPStatus.NOT_MODIFIED and known is not None:
            return known
        stated = answer.headers.get("Docker-Content-Digest", "")
        return stated if is_digest(stated) else (await self.manifest(name))[0]

    async def config(self, descriptor: Descriptor) -> bytes:
        """An image's config, as large as its manifest says and `CONFIG_LIMIT` allows."""
        asked = f"the config of {self._reference}"
        if descriptor.size > CONFIG_LIMIT:
            raise failure(
                FailureClass.UNSUPPORTED,
                f"{asked} has {descriptor.size:,} bytes; at most {CONFIG_LIMIT:,} are read",
            )
        if descriptor.size <= _LARGE:
            return await self._config(descriptor, asked)
        async with self._large:
            return await self._config(descriptor, asked)

    def _asked(self, name: str) -> str:
        return f"{self._reference.name}{'@' if is_digest(name) else ':'}{name}"

    async def _config(self, descriptor: Descriptor, asked: str) -> bytes:
        answer = await self._fetch(
            f"{self._reference.repository}/blobs/{descriptor.digest}",
            asked=asked,
            size_limit=max(descriptor.size, _LARGE),
            accept="*/*",
        )
        _compare(answer.body, descriptor.digest, f"{asked} is not what its manifest says")
        return answer.body


def _digest(body: bytes, algorithm: str) -> str:
    return f"{algorithm}:{hashlib.new(algorithm, body).hexdigest()}"


def _compare(body: bytes, digest: str, wrong: str) -> None:
    computed = _digest(body, digest.partition(":")[0])
    if computed != digest:
        raise failure(FailureClass.CORRUPT, wrong, f"stated {digest}, computed {computed}")
