"""What `wharfinger up` is given, looked at before anything runs."""

from pathlib import Path

import pytest

from wharfinger.domain.errors import InvalidRequest
from wharfinger.run.embedded import EngineChoice, embedded
from wharfinger.run.settings import ManagerSettings


@pytest.fixture
def settings(tmp_path: Path) -> ManagerSettings:
    return ManagerSettings(data_dir=tmp_path, port=0)


@pytest.mark.parametrize("url", ["nonsense", "ssh://host", "tcp://", "unix://relative"])
async def test_what_is_no_engines_address_is_refused(settings: ManagerSettings, url: str) -> None:
    with pytest.raises(InvalidRequest, match="is not an engine's address"):
        async with embedded(settings, [EngineChoice("gpu", url)]):
            pass


@pytest.mark.parametrize("content", ['{"gpu=', "[]", ""])
async def test_a_damaged_file_of_names_is_named(settings: ManagerSettings, content: str) -> None:
    (settings.data_dir / "engines.json").write_text(content)
    with pytest.raises(InvalidRequest, match=r"engines\.json is damaged"):
        async with embedded(settings, [EngineChoice("gpu", "unix:///nonexistent")]):
            pass
