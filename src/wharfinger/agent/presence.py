"""What an inspected image proves about an order."""

from wharfinger.agent.engine.port import LocalImage
from wharfinger.contracts.rpc import PullOrder, PullPolicy
from wharfinger.contracts.wire import ImageEvidence
from wharfinger.domain.failures import Failure
from wharfinger.domain.identity import shortcoming
from wharfinger.domain.platforms import Platform
from wharfinger.domain.references import Reference

_UNSTATED = Platform("", "")


def lacking(
    image: LocalImage | None, order: PullOrder, reference: Reference, host: Platform
) -> Failure | None:
    """What keeps the image from being there as ordered, or None.

    A session, and a look on its behalf, is content with the digest; a preload, and a check on its
    behalf, wants the tag too.
    """
    return shortcoming(
        reference,
        order.root_digest,
        host,
        tags=image.tags if image else (),
        digests=image.digests if image else (),
        image=platform_of(image) if image else _UNSTATED,
        tag_matters=order.policy not in {PullPolicy.SESSION, PullPolicy.LOOK},
    )


def evidence_of(image: LocalImage) -> ImageEvidence:
    """What the engine said, for the manager to judge."""
    platform = platform_of(image)
    return ImageEvidence(
        image_id=image.image_id,
        tags=image.tags,
        digests=image.digests,
        os=platform.os,
        architecture=platform.architecture,
        variant=platform.variant,
        size=image.size,
    )


def platform_of(image: LocalImage) -> Platform:
    """The image's platform; nothing stated when the engine told nothing."""
    return image.platform or _UNSTATED
