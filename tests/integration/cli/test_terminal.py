"""On a terminal: live bars within its size, colour unless it is unwanted."""

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import threading

import pytest
from rig.odd_manager import Odd, OddManager
from rig.session_answers import kernel, session
from rig.task_answers import history, item, task

from .conftest import Program
from .test_following import PRELOAD, event
from .test_sessions import CREATE, whole

ROWS, COLUMNS = 10, 90
QUEUED = task(*(item(f"gpu-{n:02}", "queued") for n in range(20)))
RUNNING = task(*(item(f"gpu-{n:02}", "running" if n > 15 else "done") for n in range(20)))
DONE = task(*(item(f"gpu-{n:02}", "done") for n in range(20)), status="succeeded")


class Terminal:
    """A terminal of a known size, and all that was written to it."""

    def __init__(self) -> None:
        self._ours, self.theirs = pty.openpty()
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self._written = b""
        self._more = threading.Condition()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def wait_for(self, text: str) -> None:
        """Until `text` was written."""
        with self._more:
            assert self._more.wait_for(lambda: text.encode() in self._written, timeout=30)

    def text(self) -> str:
        """All of it, once nobody has the terminal open any more."""
        os.close(self.theirs)
        self._reader.join()
        os.close(self._ours)
        return self._written.decode()

    def _read(self) -> None:
        try:
            while data := os.read(self._ours, 65536):
                with self._more:
                    self._written += data
                    self._more.notify_all()
        except OSError:  # how Linux says that the other side is closed
            return


@pytest.fixture
def process(program: Program, manager: OddManager) -> tuple[subprocess.Popen[str], Terminal]:
    looks = iter([QUEUED, DONE])
    manager.answers |= {
        "Preload": {"answer": {"taskId": "task-1"}},
        "Task": lambda _: {"answer": history(next(looks))},
    }
    manager.streams = [[event("1-1", "bgtask_updated", RUNNING), Odd.HOLD]]
    program.environ |= {"TERM": "xterm-256color"}
    terminal = Terminal()
    started = program.start(*PRELOAD, stdout=terminal.theirs, stderr=terminal.theirs)
    terminal.wait_for("16 done")
    return started, terminal


def test_bars_stay_within_the_terminal_and_ctrl_c_leaves_it_usable(
    process: tuple[subprocess.Popen[str], Terminal],
) -> None:
    started, terminal = process
    started.send_signal(signal.SIGINT)
    assert started.wait(30) == 130
    text = terminal.text()
    frames = re.split(r"(?:\x1b\[2K|\x1b\[1A|\r(?!\n))+", text)
    lines = [frame.split("\r\n") for frame in frames]
    assert max(len(frame) for frame in lines) <= ROWS
    bare = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text)
    assert max(len(line) for line in bare.split("\r\n") if "gpu-" in line) <= COLUMNS
    assert "gpu-16  ━" in bare
    assert "more: " in bare
    assert "wharfinger task watch task-1" in bare
    assert text.rindex("\x1b[?25h") > text.find("\x1b[?25l")


@pytest.mark.parametrize(("last", "tables"), [("done", 0), ("failed", 1)])
def test_a_table_follows_the_bars_only_where_it_tells_more(
    program: Program, manager: OddManager, last: str, tables: int
) -> None:
    end = task(item("gpu-a", "done"), item("gpu-b", last), status="partially_succeeded")
    manager.answers |= {
        "Preload": {"answer": {"taskId": "task-1"}},
        "Task": {"answer": history(end)},
    }
    manager.streams = [[event("1-1", "bgtask_partial_success", end)]]
    program.environ |= {"TERM": "xterm-256color"}
    terminal = Terminal()
    preload = program.start(*PRELOAD, stdout=terminal.theirs, stderr=terminal.theirs)
    assert preload.wait(30) == 3
    text = terminal.text()
    assert text.count("ATTEMPTS") == tables
    assert "task-1 partially succeeded" in text


def test_no_colour_where_it_is_unwanted(program: Program, manager: OddManager) -> None:
    page = {"hasNextPage": False, "endCursor": None}
    manager.answers["Tasks"] = {"tasks": {"nodes": [DONE], "pageInfo": page}}
    program.environ |= {"TERM": "xterm-256color", "NO_COLOR": "1"}
    terminal = Terminal()
    ls = program.start("task", "ls", stdout=terminal.theirs, stderr=terminal.theirs)
    assert ls.wait(30) == 0
    text = terminal.text()
    assert "task-1" in text
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]m", text)


def test_a_pull_of_a_session_is_a_bar_until_it_runs(program: Program, manager: OddManager) -> None:
    runs = session(kernel("RUNNING"))
    manager.answers |= {"CreateSession": {"answer": session()}, "Session": {"answer": runs}}
    manager.streams = [[whole("1-1", "session_updated", session(kernel("PULLING"))), Odd.HOLD]]
    program.environ |= {"TERM": "xterm-256color"}
    terminal = Terminal()
    create = program.start(*CREATE, "--wait", stdout=terminal.theirs, stderr=terminal.theirs)
    terminal.wait_for("downloading on gpu-a")
    create.send_signal(signal.SIGINT)
    assert create.wait(30) == 130
    bare = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", terminal.text())
    assert "session s1 · PULLING" in bare
    assert "app:v1  ━" in bare
    assert "50 %" in bare
    assert "wharfinger session watch s1" in bare
