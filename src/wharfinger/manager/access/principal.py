"""Who is asking."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Role(StrEnum):
    """What a user is. Stored as these words."""

    SUPERADMIN = "superadmin"
    USER = "user"


@dataclass(frozen=True, slots=True)
class Principal:
    """The user whose token came with a request."""

    user_id: str
    name: str
    role: Role

    @property
    def is_superadmin(self) -> bool:
        """Whether everything is allowed."""
        return self.role is Role.SUPERADMIN


SYSTEM: Final = Principal("", "wharfinger", Role.SUPERADMIN)
"""Who does what a program does at its own start, such as making the first superadmin."""
