"""The superadmin of a fresh database, and the file its token is found in."""

from pathlib import Path

from sqlalchemy import Connection

from wharfinger.client.connection import write_private
from wharfinger.domain.errors import Unauthenticated
from wharfinger.manager.access.principal import Role
from wharfinger.manager.access.tokens import authenticate, create_token
from wharfinger.manager.access.users import ensure_superadmin, list_users
from wharfinger.manager.storage.port import Storage

NAME = "admin"
"""The first superadmin's name."""
TOKEN_FILE = "superadmin.token"  # noqa: S105  # a file's name


async def superadmin_token(storage: Storage, data_dir: Path) -> tuple[str, Path]:
    """A superadmin's token that works, and its file (0600) in the data folder.

    A fresh database gets its first superadmin; a token file that is gone or whose token was
    revoked is made anew.
    """
    path = data_dir / TOKEN_FILE
    kept = path.read_text(encoding="utf-8").strip() if path.exists() else ""
    token = await storage.write(_working_token, kept)
    if token != kept:
        write_private(path, token + "\n")
    return token, path


def _working_token(conn: Connection, kept: str) -> str:
    issued = ensure_superadmin(conn, NAME)
    if issued is not None:
        return issued.token
    try:
        if authenticate(conn, kept).role is Role.SUPERADMIN:
            return kept
    except Unauthenticated:
        pass  # gone or revoked: a new one
    first = next(user for user in list_users(conn) if user.role == Role.SUPERADMIN)
    return create_token(conn, first.name, "for this data folder").token
