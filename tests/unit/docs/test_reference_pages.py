import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from reference_pages import write_pages
from reference_pages.pages import PAGES
from wharfinger.cli.exits import Exit
from wharfinger.cli.main import root
from wharfinger.domain.failures import FailureClass
from wharfinger.domain.states import ALL_TRANSITIONS
from wharfinger.manager.access.permissions import ROOT_FIELDS, ROUTES
from wharfinger.manager.background.picture import _KINDS
from wharfinger.run.settings import ManagerSettings

DOCS = Path(__file__).resolve().parents[3] / "docs"


def test_every_failure_class_is_told() -> None:
    page = PAGES["failures"]()
    assert [c for c in FailureClass if f"| `{c.value}` |" not in page] == []


def test_every_transition_is_told() -> None:
    page = PAGES["states"]()
    for transitions in ALL_TRANSITIONS:
        for source, targets in transitions.edges.items():
            for target, reason in targets.items():
                assert f"| `{source}` | `{target}` | {reason} |" in page
                assert f"  {source} --> {target}\n" in page


def test_every_permission_is_told() -> None:
    page = PAGES["permissions"]()
    assert all(f"| `{field}` | `{rule}` |" in page for field, rule in ROOT_FIELDS.items())
    assert all(f"`{method} {path}`" in page for method, path in ROUTES)


def test_every_setting_is_told_with_its_meaning() -> None:
    page = PAGES["settings"]()
    for name in ManagerSettings.model_fields:
        assert re.search(rf"\| `WHARFINGER_{name.upper()}` \| .* \| .+\. \|", page), name


def test_every_command_and_exit_code_is_told() -> None:
    page = PAGES["cli"]()
    for command in ("up", "image preload", "task watch", "agent run", "token create"):
        assert f"\n## wharfinger {command}\n" in page
    assert all(f"| `{code.value}` |" in page for code in Exit)


def test_help_is_told_as_the_program_prints_it() -> None:
    printed = CliRunner().invoke(root, ["image", "--help"], prog_name="wharfinger").output
    assert printed.strip() in PAGES["cli"]()


def test_every_event_is_told() -> None:
    page = (DOCS / "reference/events.md").read_text()
    assert [kind for kind in ("bgtask_updated", *_KINDS.values()) if f"`{kind}`" not in page] == []


def test_every_route_is_told() -> None:
    page = (DOCS / "reference/http.md").read_text()
    told = [f"`{method} {re.sub('{.*?}', 'ID', path)}" for method, path in ROUTES]
    assert [route for route in told if route not in page] == []


def test_the_metrics_of_the_cluster_are_told_with_those_of_the_api() -> None:
    page = PAGES["metrics"]()
    for name in ("open_streams", "agents", "sessions_waiting", "scheduler_round_seconds"):
        assert f"| `wharfinger_{name}` |" in page


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_written_once(name: str, tmp_path: Path) -> None:
    write_pages(tmp_path)
    path = tmp_path / f"{name}.md"
    written = path.stat().st_mtime_ns
    write_pages(tmp_path)
    assert path.stat().st_mtime_ns == written
    assert path.read_text().startswith("# ")
