"""Named failures: the errors that a result's union says by name.

Every one implements `Failure`. An error whose type is not in the result's union becomes a GraphQL
error instead.
"""

from typing import Any, Final, Self, TypeVar

import strawberry
from strawberry.scalars import JSON

from wharfinger.domain import errors
from wharfinger.domain.errors import WharfingerError
from wharfinger.domain.failures import FailureClass, FailureError
from wharfinger.manager.api.graphql.scalars import json


@strawberry.interface(description="Something was refused, or failed, for a reason with a name")
class Failure:
    """`{class, message, detail}` of the error it stands for."""

    class_: str = strawberry.field(name="class")
    message: str
    detail: JSON

    @classmethod
    def of(cls, error: WharfingerError) -> Self:
        """From the error raised."""
        return cls(class_=error.code, message=error.message, detail=json(error.detail))


@strawberry.type(description="A selector names no scaling group and no agent")
class UnknownSelector(Failure):
    """`errors.UnknownSelector`."""


@strawberry.type(description="The selectors match no agent")
class NoAgents(Failure):
    """`errors.NoAgents`."""


@strawberry.type(description="The registry of a reference is not known here")
class UnknownRegistry(Failure):
    """`errors.UnknownRegistry`."""


@strawberry.type(description="This is not an image reference")
class InvalidReference(Failure):
    """`errors.InvalidReference`, or a failure of this class."""


@strawberry.type(description="The registry has no such image (not-found)")
class ImageNotFound(Failure):
    """A failure of class `not-found`."""


@strawberry.type(description="The registry lets us not read it, or has no such repository (auth)")
class RegistryAccessDenied(Failure):
    """A failure of class `auth`."""


@strawberry.type(
    description="The registry does not answer as it should (network, registry-error, rate-limited)"
)
class RegistryUnreachable(Failure):
    """A failure of one of these classes."""


@strawberry.type(description="Any other failure class, such as not-an-image or wrong-platform")
class Refused(Failure):
    """A failure of any other class."""


@strawberry.type(description="You are not allowed to do this")
class Forbidden(Failure):
    """`errors.Forbidden`."""


@strawberry.type(description="There is nothing with this id")
class UnknownId(Failure):
    """`errors.UnknownId`."""


@strawberry.type(description="Images are being downloaded, so that no rescan can begin now")
class RescanBlocked(Failure):
    """`errors.RescanBlocked`. `taskIds` are what it would wait for."""

    task_ids: list[strawberry.ID]

    @classmethod
    def of(cls, error: WharfingerError) -> Self:
        """From the error raised."""
        return cls(
            class_=error.code,
            message=error.message,
            detail=json(error.detail),
            task_ids=[strawberry.ID(task_id) for task_id in error.detail.get("taskIds", ())],
        )


@strawberry.type(description="The present state does not allow this")
class Conflict(Failure):
    """`errors.Conflict`."""


@strawberry.type(description="The request is not well formed")
class InvalidRequest(Failure):
    """`errors.InvalidRequest`."""


_BY_CLASS: Final[dict[FailureClass, type[Failure]]] = {
    FailureClass.NOT_FOUND: ImageNotFound,
    FailureClass.AUTH: RegistryAccessDenied,
    FailureClass.INVALID_REFERENCE: InvalidReference,
    FailureClass.NETWORK: RegistryUnreachable,
    FailureClass.REGISTRY_ERROR: RegistryUnreachable,
    FailureClass.RATE_LIMITED: RegistryUnreachable,
}

E_contra = TypeVar("E_contra", bound=WharfingerError, contravariant=True)
F_co = TypeVar("F_co", bound=Failure, covariant=True)


class Named(strawberry.ExceptionHandler[E_contra, F_co]):
    """One error becomes one member of the union, where the union has it."""

    def __init__(self, exception_type: type[E_contra], error_type: type[F_co]) -> None:
        self.exception_type = exception_type
        self.error_type = error_type

    def handle(self, exception: E_contra, *, field: Any, info: Any) -> F_co:
        """The member."""
        del field, info
        return self.error_type.of(exception)


class NamedByClass(strawberry.ExceptionHandler[FailureError, Refused]):
    """A failure becomes the member for its class. A union that has `Refused` has them all."""

    def handle(self, exception: FailureError, *, field: Any, info: Any) -> Failure:  # type: ignore[override]
        """The member."""
        del field, info
        named = _BY_CLASS.get(exception.failure.failure_class, Refused)
        return named.of(exception)


HANDLERS: Final[tuple[strawberry.ExceptionHandler[Any, Any], ...]] = (
    Named(errors.UnknownSelector, UnknownSelector),
    Named(errors.NoAgents, NoAgents),
    Named(errors.UnknownRegistry, UnknownRegistry),
    Named(errors.InvalidReference, InvalidReference),
    Named(errors.Forbidden, Forbidden),
    Named(errors.UnknownId, UnknownId),
    Named(errors.RescanBlocked, RescanBlocked),
    Named(errors.Conflict, Conflict),
    Named(errors.InvalidRequest, InvalidRequest),
    NamedByClass(),
)
