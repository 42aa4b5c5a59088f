"""What has to hold of the repository as a whole."""

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
LOCKED = re.compile(r"^([\w.-]+)==([^\s;\\]+)", re.MULTILINE)


def git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout


def locked(name: str) -> dict[str, str]:
    text = (ROOT / "requirements" / f"{name}.txt").read_text()
    return {canonicalize_name(package): version for package, version in LOCKED.findall(text)}


def declared() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def needed(group: str) -> Iterator[Requirement]:
    """What a dependency group asks for, with the groups it includes."""
    for entry in declared()["dependency-groups"][group]:
        if isinstance(entry, str):
            yield Requirement(entry)
        else:
            yield from needed(entry["include-group"])


def run_requirements() -> list[Requirement]:
    project = declared()["project"]
    texts = [*project["dependencies"], *project["optional-dependencies"]["postgresql"]]
    return [Requirement(text) for text in texts]


@pytest.mark.parametrize(
    ("lock", "requirements"),
    [
        ("run", [*run_requirements(), *needed("build")]),
        ("dev", [*run_requirements(), *needed("build"), *needed("dev")]),
    ],
)
def test_what_is_declared_is_locked(lock: str, requirements: list[Requirement]) -> None:
    versions = locked(lock)
    stale = [
        str(requirement)
        for requirement in requirements
        if versions.get(canonicalize_name(requirement.name), "") not in requirement.specifier
    ]
    assert not stale, "run scripts/lock"


def test_the_locks_agree() -> None:
    run, dev = locked("run"), locked("dev")
    assert {name: dev.get(name) for name in run} == run


def test_the_locks_carry_no_address() -> None:
    assert "://" not in (ROOT / "requirements/run.txt").read_text()
    assert "://" not in (ROOT / "requirements/dev.txt").read_text()


def test_no_tracked_file_names_a_registry_of_packages_or_a_path_of_this_machine() -> None:
    """Read from this machine's configuration, so that none is named here."""
    paths = [rf"(?<![\w.-]){re.escape(str(path))}/" for path in (ROOT, Path.home())]
    hosts = [re.escape(host) for host in _package_hosts()]
    found = subprocess.run(
        ["git", "grep", "-nIP", "|".join([*paths, *hosts])],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert not found.stdout


def test_scripts_may_be_run() -> None:
    listing = git("ls-files", "--stage", "scripts", ".ci")
    programs = [line for line in listing.splitlines() if not line.endswith(".py")]
    assert programs
    assert [line for line in programs if not line.startswith("100755")] == []


def _package_hosts() -> set[str]:
    pip = [sys.executable, "-m", "pip", "config", "list"]
    said = [subprocess.run(pip, capture_output=True, text=True, check=False).stdout]
    default = "from pip._internal.models.index import PyPI; print(PyPI.url)"
    said.append(
        subprocess.run(
            [sys.executable, "-c", default], capture_output=True, text=True, check=False
        ).stdout
    )
    apt = [Path("/etc/apt/sources.list"), *Path("/etc/apt").glob("sources.list.d/*")]
    said += [path.read_text() for path in apt if path.exists()]
    said += [value for name, value in os.environ.items() if name.startswith(("PIP_", "UV_"))]
    hosts = set(re.findall(r"https?://(?:[^/@\s'\"]*@)?([^/\s'\":]+)", "\n".join(said)))
    return {host for host in hosts if not host.startswith(("127.", "localhost"))}
