"""From a reference to the manifests its platforms are to fetch."""

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import chain
from typing import Final

from wharfinger.domain.failures import FailureClass, FailureError
from wharfinger.domain.platforms import Platform
from wharfinger.domain.references import Reference
from wharfinger.registry.failures import failure
from wharfinger.registry.images import PlatformImage, ResolvedImage
from wharfinger.registry.manifests import (
    Descriptor,
    ImageConfig,
    ImageIndex,
    ImageManifest,
    parse_config,
)
from wharfinger.registry.repository import Repository

DEPTH_LIMIT: Final = 5
"""Levels of indexes in indexes."""
FOLLOWED_LIMIT: Final = 64
"""Entries of one index that are followed when every platform is wanted."""
DOCUMENT_LIMIT: Final = 100
"""Manifests and indexes read for one reference."""
AT_ONCE: Final = 4
"""Of them at the same time."""
CONFIG_SECONDS: Final = 10.0
"""For a config that is not needed to know what to pull."""

_USUAL: Final = Platform("linux", "amd64")


async def resolve(
    repository: Repository, reference: Reference, hosts: Collection[Platform] | None
) -> ResolvedImage:
    """What `reference` means now, read down to the layers of what `hosts` would take.

    Without `hosts`, of every platform. A digest wins over a tag. An index entry the registry does
    not have is left out while others remain.

    `diff_ids` and labels are read from the config of each image, or without `hosts` of one only.
    Where that cannot be had they are empty.
    """
    name = reference.digest or reference.tag
    assert name is not None, "a reference has a tag or a digest"
    digest, document = await repository.manifest(name)
    walk = _Walk(repository, reference, hosts)
    images = await walk.images(digest, document, None, depth=1)
    if not images and walk.missing:
        raise failure(
            FailureClass.CORRUPT,
            f"{reference}: its index lists manifests that the registry does not have",
            ", ".join(walk.missing),
        )
    return ResolvedImage(
        reference,
        digest,
        document.media_type,
        await walk.described(list(dict.fromkeys(images))),
        tuple(dict.fromkeys(walk.others)),
    )


class _Walk:
    """One walk down from a root. Nothing of it is used again."""

    def __init__(
        self, repository: Repository, reference: Reference, hosts: Collection[Platform] | None
    ) -> None:
        self.others: list[Platform] = []
        self.missing: list[str] = []
        self._repository = repository
        self._reference = reference
        self._hosts = hosts
        self._configs: dict[str, Descriptor] = {}
        self._read: dict[str, ImageConfig] = {}
        self._left = DOCUMENT_LIMIT
        self._gate = asyncio.Semaphore(AT_ONCE)

    async def images(
        self,
        digest: str,
        document: ImageManifest | ImageIndex,
        stated: Platform | None,
        *,
        depth: int,
    ) -> list[PlatformImage]:
        """The images below a document; `stated` is the platform its index gave it."""
        if isinstance(document, ImageIndex):
            return await self._below(document, stated, depth)
        self._configs[document.config.digest] = document.config
        platform = stated or (await self._config(document.config)).platform
        return [PlatformImage(platform, digest, document.config.digest, document.layers)]

    async def described(self, images: Sequence[PlatformImage]) -> tuple[PlatformImage, ...]:
        """The same with what configs say, each read once."""
        if self._hosts is None and images:
            usual = next((each for each in images if each.platform == _USUAL), images[0])
            wanted = {usual.config_digest}
        else:
            wanted = {each.config_digest for each in images}
        async with asyncio.TaskGroup() as group:
            for digest in wanted:
                group.create_task(self._try_config(self._configs[digest]))
        return tuple(map(self._describe, images))

    async def _try_config(self, descriptor: Descriptor) -> None:
        try:
            async with asyncio.timeout(CONFIG_SECONDS), self._gate:
                await self._config(descriptor)
        except (FailureError, TimeoutError):
            return  # the image can be pulled all the same

    async def _config(self, descriptor: Descriptor) -> ImageConfig:
        read = self._read.get(descriptor.digest)
        if read is None:
            body = await self._repository.config(descriptor)
            read = parse_config(body, asked=str(self._reference))
            self._read[descriptor.digest] = read
        return read

    def _describe(self, image: PlatformImage) -> PlatformImage:
        config = self._read.get(image.config_digest)
        if config is None:
            return image
        alike = len(config.diff_ids) == len(image.layers)
        return replace(image, diff_ids=config.diff_ids if alike else (), labels=config.labels)

    async def _below(
        self, index: ImageIndex, stated: Platform | None, depth: int
    ) -> list[PlatformImage]:
        if depth > DEPTH_LIMIT:
            raise self._unsupported(f"its indexes are nested more than {DEPTH_LIMIT} deep")
        found = await asyncio.gather(
            *(self._follow(entry, stated, depth + 1) for entry in self._choose(index.entries))
        )
        for result in found:
            if isinstance(result, FailureError):
                raise result
        return list(chain.from_iterable(each for each in found if isinstance(each, list)))

    async def _follow(
        self, entry: Descriptor, outer: Platform | None, depth: int
    ) -> list[PlatformImage] | FailureError:
        """A failure is returned, so that none of those beside it is left running."""
        try:
            async with self._gate:
                if self._left == 0:
                    raise self._unsupported(
                        f"its indexes lead to more than {DOCUMENT_LIMIT} others"
                    )
                self._left -= 1
                digest, document = await self._repository.manifest(entry.digest)
            return await self.images(digest, document, entry.platform or outer, depth=depth)
        except FailureError as error:
            if error.failure.failure_class is not FailureClass.NOT_FOUND:
                return error
            self.missing.append(entry.digest)
            return []

    def _choose(self, entries: Sequence[Descriptor]) -> list[Descriptor]:
        """What to follow: the best entry for each host, and all that do not state a platform."""
        by_platform: dict[Platform, Descriptor] = {}
        for entry in entries:
            if entry.platform is not None:
                by_platform.setdefault(entry.platform, entry)
        if self._hosts is None:
            wanted = list(by_platform)[:FOLLOWED_LIMIT]
        else:
            choices = (host.choose(by_platform) for host in self._hosts)
            wanted = list(dict.fromkeys(choice for choice in choices if choice is not None))
        self.others += [platform for platform in by_platform if platform not in wanted]
        unstated = {entry.digest: entry for entry in entries if entry.platform is None}
        return [*(by_platform[platform] for platform in wanted), *unstated.values()]

    def _unsupported(self, why: str) -> FailureError:
        return failure(FailureClass.UNSUPPORTED, f"{self._reference}: {why}")
