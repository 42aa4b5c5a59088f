"""Ids: opaque, short enough to be typed, never reused."""

import secrets


def new_id() -> str:
    """Sixteen hexadecimal digits."""
    return secrets.token_hex(8)
