"""Scalars that GraphQL does not have."""

from datetime import UTC, datetime
from typing import Any, Final, NewType

import strawberry
from graphql import GraphQLError
from strawberry.types.scalar import ScalarDefinition

BigInt = NewType("BigInt", int)
"""A whole number beyond 32 bits, such as bytes."""


def _whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise GraphQLError(f"BigInt is a whole number, not {value!r}"[:200])
    return value


SCALARS: Final[dict[object, ScalarDefinition]] = {
    BigInt: strawberry.scalar(
        name="BigInt",
        description="A whole number that may exceed 32 bits, as a JSON number",
        serialize=int,
        parse_value=_whole,
    ),
}


def big(number: int) -> BigInt:
    """A number of bytes or units."""
    return BigInt(number)


def maybe_big(number: int | None) -> BigInt | None:
    """The same for what may not be known."""
    return None if number is None else big(number)


def moment(seconds: float) -> datetime:
    """A `DateTime` from seconds since the epoch."""
    return datetime.fromtimestamp(seconds, UTC)


def maybe_moment(seconds: float | None) -> datetime | None:
    """The same for what may not have happened yet."""
    return None if seconds is None else moment(seconds)


def json(value: Any) -> strawberry.scalars.JSON:
    """Any JSON value."""
    return strawberry.scalars.JSON(value)
