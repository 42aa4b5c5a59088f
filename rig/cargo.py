"""A registry's small images that simulated engines pull as well, with tags that move."""

import urllib.request
from dataclasses import dataclass
from typing import Final

from rig import images
from wharfinger.agent.engine.simulated import SimulatedImage
from wharfinger.domain.progress import Layer

BASE_SIZE: Final = 20_000
OWN_SIZE: Final = 30_000
MOVING, STILL = "v1", "first"
"""The tags of every repository."""


@dataclass(frozen=True)
class Cargo:
    """Repositories of two manifests each, on a real registry."""

    host: str
    manifests: dict[str, tuple[bytes, bytes]]
    """By repository."""
    library: dict[str, SimulatedImage]
    """What engines pull, by pinned name."""

    @property
    def tagged(self) -> list[str]:
        """A reference for every tag."""
        return [f"{self.host}/{name}:{tag}" for name in self.manifests for tag in (MOVING, STILL)]

    @property
    def pinned(self) -> list[str]:
        """A reference for every manifest."""
        return list(self.library)

    def move(self, repository: str, which: int) -> None:
        """Let the moving tag mean one of the two. Blocks."""
        with images.Pusher(self.host) as pusher:
            raw = self.manifests[repository][which]
            pusher.manifest(repository, MOVING, raw, images.DOCKER_MANIFEST)


def push_cargo(host: str, repositories: int) -> Cargo:
    """Push it all; every image shares one layer with every other."""
    base = images.random_layer("base", BASE_SIZE)
    cargo = Cargo(host, {}, {})
    for number in range(repositories):
        repository = f"cargo/n{number}"
        raws = []
        for tag in (STILL, MOVING):
            layers = [base, images.random_layer("own", OWN_SIZE)]
            pushed = images.push(host, repository, tag, layers)
            raws.append(_manifest(host, repository, pushed.root_digest))
            cargo.library[f"{host}/{repository}@{pushed.root_digest}"] = SimulatedImage(
                pushed.config_digest,
                tuple(Layer(each.digest, each.size) for each in layers),
                tuple(each.diff_id for each in layers),
            )
        first, second = raws
        cargo.manifests[repository] = (first, second)
    return cargo


def _manifest(host: str, repository: str, digest: str) -> bytes:
    request = urllib.request.Request(
        f"http://{host}/v2/{repository}/manifests/{digest}",
        headers={"Accept": images.DOCKER_MANIFEST},
    )
    with urllib.request.urlopen(request, timeout=60) as response:
        return bytes(response.read())
