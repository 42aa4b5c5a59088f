import fcntl
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from lib import debian, environment
from lib.debian import Package
from lib.preparing import prepare

SCRIPTS = Path(__file__).resolve().parents[3] / "scripts"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock and the environment of another checkout, and installers that do nothing."""
    venv = tmp_path / ".venv"
    venv.mkdir()
    monkeypatch.setattr(environment, "CACHE", tmp_path)
    monkeypatch.setattr(environment, "VENV", venv)
    monkeypatch.setattr(environment, "_run", lambda *_command: None)
    monkeypatch.setattr(debian, "_POLICY", tmp_path / "policy-rc.d")
    monkeypatch.setattr(debian, "_apt", lambda *_: subprocess.CompletedProcess((), 0, ""))
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: "there")


def test_each_step_is_told_before_it_is_done_and_none_twice(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    said_before_pip: list[str] = []
    monkeypatch.setattr(
        environment, "_pip", lambda *_: said_before_pip.append(capsys.readouterr().out)
    )
    missing = Package("no-such-package")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("shutil.which", lambda _name: "/usr/bin/apt-get")

    prepare("run", [missing])

    first = said_before_pip[0].splitlines()
    assert "missing Debian packages (no-such-package)" in first[0]
    assert "Python packages" in first[1]
    assert capsys.readouterr().out.startswith("installed no-such-package, .venv in ")

    monkeypatch.setattr(environment, "_works", lambda: True)
    prepare("run", [])
    assert capsys.readouterr().out == ""


def test_who_waits_for_another_setup_says_so(
    tmp_path: Path,
) -> None:
    told: list[str] = []
    with (tmp_path / "setup.lock").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)

        def say(text: str) -> None:
            told.append(text)
            fcntl.flock(other, fcntl.LOCK_UN)

        with environment.one_at_a_time(say):
            pass
    assert told == ["another setup is under way in this checkout; waiting for it ..."]


@pytest.mark.parametrize("script", ["quickstart", "setup", "test", "lock"])
def test_a_script_tells_its_use_and_refuses_what_it_does_not_know(script: str) -> None:
    def called(argument: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, SCRIPTS / script, argument],
            check=False,
            capture_output=True,
            text=True,
        )

    told = called("--help")
    assert told.returncode == 0
    assert f"    scripts/{script}" in told.stdout
    refused = called("--no-such-option")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "--no-such-option" in refused.stderr
