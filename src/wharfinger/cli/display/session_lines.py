"""A session as plain lines: one per change of a kernel, and now and then how far its pulls are."""

from collections.abc import Callable, Sequence

from wharfinger.cli import words
from wharfinger.cli.display.lines import PROGRESS_SECONDS
from wharfinger.cli.reasons import preparation, preparation_figures, why
from wharfinger.client.shapes import Kernel, Session
from wharfinger.domain.sessions import Reason


class SessionLog:
    """Turns each new view of a session into the lines that are new."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._states: dict[str, str] = {}
        self._told_at: float | None = None
        self._told = ""

    def update(self, session: Session) -> list[str]:
        """The lines to print for `session` as it is now."""
        lines = []
        if self._told_at is None:
            lines.append(f"session {session['id']}: {session['status']}")
            self._told_at = self._clock()
        several = len(session["kernels"]) > 1
        for number, kernel in enumerate(session["kernels"], start=1):
            state = state_of(kernel, live=False)
            if self._states.get(kernel["id"]) != state:
                self._states[kernel["id"]] = state
                subject = (
                    f"kernel {number} {kernel['reference']}" if several else kernel["reference"]
                )
                lines.append(f"{words.plain(subject)}: {state}")
        if self._clock() - self._told_at >= PROGRESS_SECONDS:
            self._told_at = self._clock()
            lines += self._progress(session["kernels"])
        return lines

    def _progress(self, kernels: Sequence[Kernel]) -> list[str]:
        lines = [text for kernel in kernels if (text := progress(kernel))]
        text = "\n".join(lines)
        if text == self._told:
            return []
        self._told = text
        return lines


def state_of(kernel: Kernel, *, live: bool = True) -> str:
    """`PULLING on gpu-a`, `PENDING: session 4f2a comes first`, `ERROR: not-found: no such tag`.

    Unless it is `live`, without the figures that change all the time.
    """
    place = f" on {kernel['agentId']}" if kernel["agentId"] else ""
    failure = kernel["failure"]
    reason = why(kernel) if live else why(_still(kernel))
    told = f"{failure['class']}: {failure['message']}" if failure else reason
    code = kernel["exitCode"]
    ended = "" if code is None else f"exit code {code}"
    return words.plain(": ".join([kernel["status"] + place, *filter(None, [ended, told])]))


def progress(kernel: Kernel) -> str:
    """`app:v1 on gpu-a: 42 %, 1.2 GiB of 2.8 GiB, 85.0 MiB/s, 0:19 left, downloading`, or how far
    the preparation is that holds it back, or nothing while it pulls nothing."""
    if held_back(kernel):
        data = kernel["statusData"] or {}
        figures = preparation_figures(data)
        return words.plain(
            f"{kernel['reference']}: {preparation(data)}: {figures}" if figures else ""
        )
    pull = kernel["pull"]
    if pull is None or not pull["bytesTotal"]:
        return ""
    done, total, eta = pull["bytesDone"], pull["bytesTotal"], pull["etaSeconds"]
    parts = [
        f"{words.share(done, total)} %",
        f"{words.size(done)} of {words.size(total)}",
        words.rate(pull["bytesPerSecond"]),
        f"{words.clock(eta)} left" if eta is not None else "",
        pull["phase"],
    ]
    return words.plain(
        f"{kernel['reference']} on {kernel['agentId']}: " + ", ".join(filter(None, parts))
    )


def held_back(kernel: Kernel) -> bool:
    """Whether it waits for its image to be brought to a host, or taken away there."""
    return kernel["statusInfo"] == Reason.PENDING_IMAGE_PREPARATION


def _still(kernel: Kernel) -> Kernel:
    """The kernel without how far its preparation is."""
    if not held_back(kernel) or not kernel["statusData"]:
        return kernel
    still = {**kernel["statusData"], "progress": None, "etaSeconds": None}
    return {**kernel, "statusData": still}
