"""The base of all models on the wire, and the pieces several of them share."""

from typing import Any, Final, Self

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from wharfinger.domain.failures import Failure, FailureClass
from wharfinger.domain.progress import Layer

DETAIL_LIMIT: Final = 4096


class Wire(BaseModel):
    """Immutable, camelCase in JSON, and tolerant of keys a newer peer may add."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="ignore", frozen=True
    )

    def to_wire(self) -> dict[str, Any]:
        """JSON-ready, with the keys of the wire."""
        return self.model_dump(mode="json", by_alias=True)


class FailureReport(Wire):
    """A failure on its way: `wharfinger.domain.failures.Failure`.

    `detail` is cut at `DETAIL_LIMIT` characters: a report larger than a manager takes would be sent
    again for ever.
    """

    failure_class: FailureClass
    message: str
    detail: str = ""
    retry_after: float | None = None

    @classmethod
    def of(cls, failure: Failure) -> Self:
        """The report of a failure."""
        return cls(
            failure_class=failure.failure_class,
            message=_valid(failure.message),
            detail=_valid(failure.detail[:DETAIL_LIMIT]),
            retry_after=failure.retry_after,
        )

    def failure(self) -> Failure:
        """The failure reported."""
        return Failure(self.failure_class, self.message, self.detail, self.retry_after)


def _valid(text: str) -> str:
    """Without halves of surrogate pairs, which JSON cannot carry."""
    return text.encode(errors="replace").decode()


class DiskSpace(Wire):
    """Bytes of the file system that holds the engine's data root. `free` is what an ordinary
    process may still write."""

    free: int
    total: int


class LayerSize(Wire):
    """A layer of the agent's platform: digest and size (bytes) of the compressed blob."""

    digest: str
    size: int

    def layer(self) -> Layer:
        """As the progress arithmetic takes it."""
        return Layer(self.digest, self.size)


class ImageEvidence(Wire):
    """What the engine said of an image on inspect. The manager judges it, not the agent.

    `tags` and `digests` are normalised references: `host/name:tag` and `host/name@sha256:…`.
    """

    image_id: str
    tags: tuple[str, ...]
    digests: tuple[str, ...]
    os: str
    architecture: str
    variant: str = ""
    size: int = 0
