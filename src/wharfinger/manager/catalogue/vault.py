"""Secrets at rest: encrypted with a key that is not in the database."""

import os
import tempfile
from pathlib import Path

from cryptography.fernet import Fernet, InvalidToken

from wharfinger.domain.errors import WharfingerError


class VaultError(WharfingerError):
    """A secret cannot be read with this key."""


class Vault:
    """Encrypts and decrypts with one Fernet key. All managers of a database share it."""

    def __init__(self, key: bytes) -> None:
        try:
            self._fernet = Fernet(key)
        except ValueError as error:
            raise VaultError("the key is not a Fernet key: 32 bytes in URL-safe base64") from error

    @classmethod
    def from_file(cls, path: Path) -> "Vault":
        """With the key in `path`, which is made, readable by its owner alone, where it is absent.

        It appears whole: of several processes that start at once, all get the same key.
        """
        try:
            if not path.exists():
                _create(path, Fernet.generate_key())
            return cls(path.read_bytes().strip())
        except OSError as error:
            raise VaultError(f"the key file {path} cannot be used: {error.strerror}") from error
        except VaultError as error:
            raise VaultError(f"{path}: {error.message}") from error

    def encrypt(self, secret: str) -> str:
        """Text for the database."""
        return self._fernet.encrypt(secret.encode()).decode("ascii")

    def decrypt(self, encrypted: str) -> str:
        """The secret again; raises `VaultError` when another key encrypted it, or it is damaged."""
        try:
            return self._fernet.decrypt(encrypted.encode()).decode()
        except InvalidToken as error:
            raise VaultError(
                "a secret in the database was encrypted with another key:"
                " bring back the key file it was made with, or enter the secret again"
            ) from error


def _create(path: Path, content: bytes) -> None:
    """Write beside it first, then link: never half of it, never over another's."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, beside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # mode 0600
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(beside, path)
        except FileExistsError:
            return
    finally:
        Path(beside).unlink()
