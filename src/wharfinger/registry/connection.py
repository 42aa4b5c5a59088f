"""How one registry is reached."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class RegistryConnection:
    """A registry: `host` as references name it, `url` (`scheme://host[:port]`) where it is asked.

    Both of `username` and `password` are set, or none.
    """

    host: str
    url: str
    username: str | None = None
    password: str | None = field(default=None, repr=False)
