"""The storage port: plain synchronous functions over a connection, one hop per transaction."""

from collections.abc import Callable
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from sqlalchemy import Connection

P = ParamSpec("P")
T = TypeVar("T")


class Storage(Protocol):
    """Runs a whole transaction on a database thread.

    `function` is called with a connection in a transaction, which is committed when it returns and
    rolled back when it raises. It may be run again after a serialisation failure, so it must not
    touch anything but the connection. Cancelling the awaiting task does not tear the transaction.
    """

    async def write(
        self, function: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run it in a transaction that may write."""

    async def read(
        self, function: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run it in a transaction that only reads, on a consistent snapshot."""

    async def close(self) -> None:
        """Wait for what runs, then close every connection. Later calls raise `StorageClosed`."""
