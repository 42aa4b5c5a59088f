"""A Valkey server for tests: Debian's, unpacked into the cache and not installed.

Debian 12 has it in its backports, so those are asked on the mirror that apt uses anyway, with an
apt of its own that changes nothing on the machine.
"""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from lib.environment import CACHE

_FOLDER = CACHE / "valkey"
_PACKAGES = ("valkey-server", "valkey-tools")  # the first is a link into the second
_KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
_SECONDS = 120


def unpack(say: Callable[[str], None]) -> None:
    """Have it at `.cache/valkey/usr/bin/valkey-server`; say so where that cannot be."""
    if (_FOLDER / "usr/bin/valkey-server").exists():
        return
    apt = CACHE / "apt"
    try:
        _download(apt)
        unpacked = apt / "unpacked"
        for package in apt.glob("*.deb"):
            _run("dpkg-deb", "--extract", str(package), str(unpacked), folder=apt)
        _run(str(unpacked / "usr/bin/valkey-server"), "--version", folder=apt)
        shutil.rmtree(_FOLDER, ignore_errors=True)
        unpacked.rename(_FOLDER)
    except (OSError, subprocess.SubprocessError) as error:
        say(f"no Valkey server is to be had here, so Redis stands for both ({error})")
    finally:
        shutil.rmtree(apt, ignore_errors=True)


def _download(folder: Path) -> None:
    (folder / "lists/partial").mkdir(parents=True, exist_ok=True)
    (folder / "cache/archives/partial").mkdir(parents=True, exist_ok=True)
    sources = folder / "sources.list"
    sources.write_text(_backports())
    options = (
        f"--option=Dir::Etc::SourceList={sources}",
        "--option=Dir::Etc::SourceParts=/dev/null",
        f"--option=Dir::State::Lists={folder / 'lists'}",
        f"--option=Dir::Cache={folder / 'cache'}",
        "--option=APT::Sandbox::User=root",
    )
    _run("apt-get", *options, "--quiet", "update", folder=folder)
    _run("apt-get", *options, "--quiet", "download", *_PACKAGES, folder=folder)


def _backports() -> str:
    """The backports beside the release that apt is set up for."""
    targets = _run(
        "apt-get", "indextargets", "--format", "$(SITE) $(CODENAME)",
        "Created-By: Packages", "Component: main", "Origin: Debian", "Label: Debian",
        folder=CACHE,
    )  # fmt: skip
    for target in targets.splitlines():
        site, release = target.split()
        if release.isalpha():  # none of its updates
            return f"deb [signed-by={_KEYS}] {site} {release}-backports main\n"
    raise FileNotFoundError("apt is set up for no Debian release")


def _run(*command: str, folder: Path) -> str:
    done = subprocess.run(
        command,
        check=True,
        cwd=folder,
        timeout=_SECONDS,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    return done.stdout
