"""Secrets at rest."""

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cryptography.fernet import Fernet
from hypothesis import given
from hypothesis import strategies as st

from wharfinger.manager.catalogue.vault import Vault, VaultError

KEY = Fernet.generate_key()


@given(st.text())
def test_a_secret_comes_back_and_does_not_stand_in_the_text(secret: str) -> None:
    vault = Vault(KEY)

    encrypted = vault.encrypt(secret)

    assert vault.decrypt(encrypted) == secret
    assert len(secret) < 8 or secret not in encrypted


def test_the_key_file_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "data" / "secrets.key"

    encrypted = Vault.from_file(path).encrypt("word")

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert Vault.from_file(path).decrypt(encrypted) == "word"
    assert list(path.parent.iterdir()) == [path]


def test_all_that_start_at_once_get_the_same_key(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        vaults = list(pool.map(Vault.from_file, [tmp_path / "key"] * 8))

    encrypted = vaults[0].encrypt("word")
    assert {vault.decrypt(encrypted) for vault in vaults} == {"word"}


def test_another_key_is_named_as_the_reason() -> None:
    encrypted = Vault(KEY).encrypt("word")

    with pytest.raises(VaultError, match="another key"):
        Vault(Fernet.generate_key()).decrypt(encrypted)


def test_a_file_that_holds_no_key_is_named(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("not a key")

    with pytest.raises(VaultError, match="key: the key is not a Fernet key"):
        Vault.from_file(tmp_path / "key")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(VaultError, match="cannot be used"):
        Vault.from_file(tmp_path)
