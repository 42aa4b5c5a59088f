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
) -> PullOrder:
    """To pull it. `variant` is what the image is for the agent's platform, where that is known."""
    return PullOrder(
        attempt_id=attempt.id,
        reference=attempt.reference,
        root_digest=attempt.root_digest,
        layers=tuple(
            LayerSize(digest=layer.digest, size=layer.size)
            for layer in (variant.layers if variant else ())
        ),
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


def _credentials(registry: RegistryConnection) -> Credentials | None:
    if registry.username is None:
        return None
    return Credentials(username=registry.username, password=registry.password or "")
