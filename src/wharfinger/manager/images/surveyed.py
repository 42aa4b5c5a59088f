"""What a survey of a removal, and what the manager knows, say about it: for unloads and plans."""

from collections.abc import Sequence
from typing import Final

from wharfinger.contracts.rpc import ImageUser, RemovalSurvey
from wharfinger.domain.failures import Failure, FailureClass
from wharfinger.domain.gate import ImageKeys
from wharfinger.domain.references import Reference
from wharfinger.manager.gate.kernels import BoundKernel
from wharfinger.manager.gate.protection import Protection

_NAMED: Final = 10


def first_keys(reference: Reference) -> ImageKeys:
    """What is known of the image before anybody looked."""
    return ImageKeys.of(str(reference), reference.digest)


def keys(reference: Reference, survey: RemovalSurvey) -> ImageKeys:
    """All that the image is known by there; while it is not there, what it is asked for by."""
    if survey.image_id is None:
        return first_keys(reference)
    return ImageKeys(str(reference), frozenset(survey.root_digests), survey.image_id)


def obstacle(
    reference: Reference,
    survey: RemovalSurvey,
    bound: Sequence[BoundKernel],
    protection: Protection,
) -> Failure | None:
    """Why the image must stay; `bound` are the kernels that are bound to it there.

    One that is not there stays when a session is about to bring it.
    """
    if survey.image_id is None:
        return _in_use(reference, bound, ())
    return protection.refusal({str(reference), *survey.going}, survey.root_digests) or _in_use(
        reference, bound, foreign(survey.users, bound)
    )


def foreign(users: Sequence[ImageUser], bound: Sequence[BoundKernel]) -> list[ImageUser]:
    """The containers that are not those of these kernels."""
    ours = {kernel.id for kernel in bound}
    return [each for each in users if each.kernel_id not in ours]


def _in_use(
    reference: Reference, bound: Sequence[BoundKernel], containers: Sequence[ImageUser]
) -> Failure | None:
    users = [
        *map(str, bound),
        *(f"container {each.name or each.container_id[:12]} ({each.state})" for each in containers),
    ]
    if not users:
        return None
    more = f" and {len(users) - _NAMED} more" if len(users) > _NAMED else ""
    ids = [*(each.id for each in bound), *(each.container_id for each in containers)]
    return Failure(
        FailureClass.IN_USE,
        f"{reference} is used by {', '.join(users[:_NAMED])}{more}: "
        + ("end sessions" if bound else "remove containers")
        + " first, or leave it where it is",
        "\n".join(ids[:_NAMED]),
    )
