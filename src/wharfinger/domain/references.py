"""Image references in the grammar of the distribution project, normalised."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reference:
    """`registry/repository[:tag][@digest]`, normalised. At least one of tag and digest is set."""

    registry: str
    """`host[:port]`: `docker.io`, `127.0.0.1:5000`, `[::1]:5992`."""
    repository: str
    """`library/busybox`."""
    tag: str | None
    digest: str | None

    @classmethod
    def parse(cls, text: str) -> "Reference":
        """Read any spelling people and engines use; raises `InvalidReference`."""
        raise NotImplementedError

    @property
    def name(self) -> str:
        """`registry/repository`."""
        return f"{self.registry}/{self.repository}"

    def pinned(self, digest: str) -> str:
        """`registry/repository@digest`: what an engine is asked to pull."""
        return f"{self.name}@{digest}"

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        digest = f"@{self.digest}" if self.digest else ""
        return f"{self.name}{tag}{digest}"
