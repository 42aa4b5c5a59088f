"""Sample images that nobody has seen before, so that every pull moves bytes."""

from dataclasses import dataclass

from rig import images


@dataclass(frozen=True)
class Sample:
    """An image in a registry: `repository:tag`, to be pulled from whichever host serves it."""

    repository: str
    tag: str
    root_digest: str
    size: int
    """Compressed bytes."""
    blobs: tuple[str, ...]
    """Digests of the layers."""

    def at(self, host: str) -> str:
        """The reference by tag."""
        return f"{host}/{self.repository}:{self.tag}"

    def pinned(self, host: str) -> str:
        """The reference by digest."""
        return f"{host}/{self.repository}@{self.root_digest}"


def push_sample(
    host: str,
    repository: str,
    tag: str = "v1",
    *,
    layers: int = 3,
    size: int = 300_000,
    architecture: str = "amd64",
) -> Sample:
    """Push an image of busybox and `layers` random layers of `size` bytes each."""
    blobs = [images.busybox_layer()]
    blobs += [images.random_layer(f"data/{number}", size) for number in range(layers)]
    pushed = images.push(host, repository, tag, blobs, architecture=architecture)
    return Sample(
        repository=repository,
        tag=tag,
        root_digest=pushed.root_digest,
        size=sum(blob.size for blob in blobs),
        blobs=tuple(blob.digest for blob in blobs),
    )
