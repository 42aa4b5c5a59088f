import stat
from pathlib import Path

import pytest

from wharfinger.agent.identity import Identity, IdentityFile, UnreadableIdentity


def test_an_identity_is_kept_for_its_owner_alone(tmp_path: Path) -> None:
    file = IdentityFile(tmp_path / "state", "a1")
    assert file.load() == Identity("a1")
    file.save(Identity("a1", "secret"))
    assert file.load() == Identity("a1", "secret")
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert list(file.path.parent.iterdir()) == [file.path]


def test_another_agents_file_is_refused(tmp_path: Path) -> None:
    IdentityFile(tmp_path, "a1").save(Identity("a1", "secret"))
    with pytest.raises(UnreadableIdentity, match="belongs to agent 'a1'"):
        IdentityFile(tmp_path, "a2").load()


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"agent_id": "a1"}', "\x00"])
def test_a_damaged_file_is_said_to_be_so(tmp_path: Path, content: str) -> None:
    file = IdentityFile(tmp_path, "a1")
    file.path.write_text(content)
    with pytest.raises(UnreadableIdentity):
        file.load()
