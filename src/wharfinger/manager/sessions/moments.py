"""Moments as the interfaces write them."""

from datetime import UTC, datetime


def moment(seconds: float) -> str:
    """ISO 8601, UTC, from seconds since the epoch."""
    return datetime.fromtimestamp(seconds, UTC).isoformat()
