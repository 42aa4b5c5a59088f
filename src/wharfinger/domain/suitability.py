"""Which hosts are open to a session, and which run an image."""

from collections.abc import Collection, Sequence

from wharfinger.domain.platforms import Platform


def may_use(group: str, session_group: str | None, user_groups: Collection[str] | None) -> bool:
    """Whether agents of this scaling group are open to a session: it named none or this one, and
    its owner may use it (None: any)."""
    is_named = session_group is None or group == session_group
    return is_named and (user_groups is None or group in user_groups)


def suits(host: Platform, images: Sequence[Platform] | None) -> bool:
    """Whether an image that is for these platforms runs there. An image that is not known is not
    ruled out: the agent will see."""
    return images is None or host.choose(images) is not None
