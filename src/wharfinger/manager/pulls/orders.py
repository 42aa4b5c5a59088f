"""What agents are told of attempts."""

from wharfinger.contracts.rpc import Credentials, PullOrder, PullPolicy
from wharfinger.contracts.wire import LayerSize
from wharfinger.manager.pulls.attempts import Attempt
from wharfinger.registry.connection import RegistryConnection
from wharfinger.registry.images import PlatformImage


def pull(
    attempt: Attempt,
    policy: PullPolicy,
    registry: RegistryConnection,
    variant: PlatformImage | None,
    disk_margin: int,
) -> PullOrder:
    """To pull it. `variant` is what the image is for the agent's platform, where that is known;
    `disk_margin` the bytes that are to stay free."""
    return PullOrder(
        attempt_id=attempt.id,
        reference=attempt.reference,
        root_digest=attempt.root_digest,
        layers=layers(variant) if variant else (),
        diff_ids=variant.diff_ids if variant else (),
        disk_margin=disk_margin,
        policy=policy,
        credentials=_credentials(registry),
    )


def look(attempt: Attempt) -> PullOrder:
    """To say whether it is there, and pull nothing."""
    return PullOrder(
        attempt_id=attempt.id,
        reference=attempt.reference,
        root_digest=attempt.root_digest,
        layers=(),
        policy=PullPolicy.LOOK,
    )


def layers(variant: PlatformImage) -> tuple[LayerSize, ...]:
    """Its layers, as orders tell them."""
    return tuple(LayerSize(digest=layer.digest, size=layer.size) for layer in variant.layers)


def _credentials(registry: RegistryConnection) -> Credentials | None:
    if registry.username is None:
        return None
    return Credentials(username=registry.username, password=registry.password or "")
