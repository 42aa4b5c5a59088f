import sys
import tempfile
from pathlib import Path

import pytest

from lib import stages
from lib.stages import Outcome, Stage, run


def swept(_folder: Path) -> list[str]:
    return []


@pytest.fixture(autouse=True)
def _files_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "CACHE", tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def stage(script: str, *, deadline: float = 30.0, counts: bool = False) -> Stage:
    return Stage("probe", (sys.executable, "-c", script), deadline, counts=counts)


def outcome_of(closing: str, code: int, tmp_path: Path) -> Outcome:
    log = tmp_path / "log"
    log.write_text(f"tests/test_a.py ..\n{closing}\n")
    return Outcome(Stage("probe", (), 1, counts=True), 1.0, code, log)


@pytest.mark.parametrize(
    ("closing", "code", "counted"),
    [
        ("===== 171 passed in 28.40s =====", 0, (171, 0)),
        ("= 1 failed, 3 passed, 2 skipped, 1 error in 65.20s (0:01:05) =", 1, (3, 2)),
        ("= 2 errors in 1.00s =", 2, (0, 2)),
        ("12 passed, 1 skipped in 0.10s", 0, (12, 0)),
        ("= no tests ran in 0.01s =", 5, (0, 1)),
    ],
)
def test_tests_are_counted_from_the_closing_line(
    closing: str, code: int, counted: tuple[int, int], tmp_path: Path
) -> None:
    outcome = outcome_of(closing, code, tmp_path)
    assert (outcome.passed, outcome.failed) == counted


def test_a_stage_without_a_closing_line_counts_as_one_failure(tmp_path: Path) -> None:
    outcome = outcome_of("Killed", 137, tmp_path)
    assert (outcome.closing, outcome.passed, outcome.failed) == ("", 0, 1)


def test_a_stage_that_fails_shows_all_its_output(capsys: pytest.CaptureFixture[str]) -> None:
    stages.report(run(stage("print('what went wrong'); raise SystemExit(3)"), swept))
    said = capsys.readouterr().out
    assert "FAILED" in said
    assert "what went wrong" in said


def test_a_stage_that_passes_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    stages.report(run(stage("print('chatter')"), swept))
    said = capsys.readouterr().out
    assert said.count("\n") == 1
    assert "chatter" not in said


def test_a_stage_that_makes_something_says_where(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log"
    log.touch()
    stages.report(Outcome(Stage("docs", (), 1, makes="pages/index.html"), 1.0, 0, log))
    assert capsys.readouterr().out.endswith("  pages/index.html\n")


def test_a_stage_beyond_its_deadline_is_interrupted_and_fails() -> None:
    script = "import signal; signal.pause()"
    outcome = run(stage(script, deadline=0.2), swept)
    assert not outcome.ok
    assert outcome.code is None


def test_temporary_files_of_a_stage_are_its_own() -> None:
    seen: list[Path] = []

    def sweep(folder: Path) -> list[str]:
        seen.append(folder)
        assert (folder / "left").exists()
        return ["lost-engine"]

    script = "import pathlib, tempfile; pathlib.Path(tempfile.gettempdir(), 'left').touch()"
    outcome = run(stage(script), sweep)
    assert outcome.ok
    assert outcome.left_running == ["lost-engine"]
    assert len(seen) == 1
