"""How a session stands or ended, in a sentence, and what went wrong with it in full."""

from collections.abc import Sequence

from wharfinger.cli import words
from wharfinger.cli.advice import what_to_do
from wharfinger.cli.reasons import why
from wharfinger.client.shapes import Kernel, Session
from wharfinger.domain.sessions import TERMINAL, Reason
from wharfinger.domain.states import KernelStatus


def sentence(session: Session) -> str:
    """`session 4f2a running on gpu-a`, `session 4f2a ended with exit code 3`."""
    match session["status"]:
        case KernelStatus.RUNNING:
            stands = f"running on {places(session)}"
        case KernelStatus.TERMINATED:
            stands = f"ended{_with_exit_code(session)}"
        case status:
            stands = f"is {status}"
    told = why(session)
    return words.plain(f"session {session['id']} {stands}" + (f": {told}" if told else ""))


def places(session: Session) -> str:
    """The agents of its kernels, each once; `-` while there are none."""
    agents = [kernel["agentId"] for kernel in session["kernels"] if kernel["agentId"]]
    return ", ".join(dict.fromkeys(agents)) or "-"


def has_ended(session: Session) -> bool:
    """Whether nothing more becomes of it."""
    return session["status"] in TERMINAL


def deciding(session: Session) -> Sequence[Kernel]:
    """The kernels whose end is the session's: those that did not merely end with another."""
    first = [each for each in session["kernels"] if each["statusInfo"] != Reason.SESSION_ENDED]
    return first or session["kernels"]


def failures(session: Session) -> list[str]:
    """For every kernel that failed: the sentence, the raw text it came with, and what to do."""
    lines = []
    for kernel in session["kernels"]:
        failure = kernel["failure"]
        if failure is None:
            continue
        lines.append(f"{kernel['reference']}: {failure['class']}: {failure['message']}")
        if failure["detail"]:
            lines.append(f"  {failure['detail']}")
        hint = what_to_do(failure["class"])
        if hint and kernel["status"] in TERMINAL:
            lines.append(f"  what to do: {hint}")
    return [words.plain(line) for line in lines]


def _with_exit_code(session: Session) -> str:
    codes = {each["exitCode"] for each in deciding(session) if each["exitCode"] is not None}
    return f" with exit code {', '.join(map(str, sorted(codes)))}" if codes else ""
