"""What a preload or an unload would do, host by host: `--dry-run`."""

from collections import Counter
from collections.abc import Iterable, Sequence

from wharfinger.cli import output, words
from wharfinger.cli.exits import Exit
from wharfinger.cli.remote import ask
from wharfinger.client.shapes import PreloadPlan, UnloadPlan

_NOT_KNOWN = "?"


def preload(
    url: str | None, references: Sequence[str], selectors: Sequence[str], *, as_json: bool
) -> Exit:
    """Print what a preload would do: the array of plans, or a table and a sentence."""
    plans = ask(url, lambda api: api.preload_plan(references, selectors))
    if as_json:
        output.document(plans)
        return _exit(plans)
    output.table(
        ("AGENT", "IMAGE", "DIGEST", "DOWNLOAD", "ON DISK", "FREE NOW", "FREE AFTER", "WOULD"),
        [
            (
                each["agentId"],
                each["reference"],
                output.digest(each["rootDigest"]),
                _download(each),
                _bytes(each["bytesNeeded"]),
                _bytes(each["diskFree"]),
                _bytes(each["diskFreeAfter"]),
                preload_outcome(each),
            )
            for each in plans
        ],
        empty="",
    )
    pulls = [each for each in plans if each["action"] == "pull"]
    total = sum(_missing(each) for each in pulls)
    most = "" if all(_is_exact(each) for each in pulls) else "at most "
    output.line(f"{_counts(plans)}; {most}{words.size(total)} to download; nothing was done")
    return _exit(plans)


def unload(
    url: str | None, references: Sequence[str], selectors: Sequence[str], *, as_json: bool
) -> Exit:
    """Print what an unload would do: the array of plans, or a table and a sentence."""
    plans = ask(url, lambda api: api.unload_plan(references, selectors))
    if as_json:
        output.document(plans)
        return _exit(plans)
    output.table(
        ("AGENT", "IMAGE", "FREES", "KERNELS", "CONTAINERS", "QUEUED", "KEPT BY", "WOULD"),
        [
            (
                each["agentId"],
                each["reference"],
                _bytes(each["bytesFreed"]) if each["action"] == "remove" else "-",
                _names(each["kernels"]),
                _names(each["containers"]),
                _names(each["queued"]),
                _names(each["keptBy"]),
                unload_outcome(each),
            )
            for each in plans
        ],
        empty="",
    )
    removals = [each["bytesFreed"] for each in plans if each["action"] == "remove"]
    least = "at least " if None in removals else ""
    freed = words.size(sum(number or 0 for number in removals))
    output.line(f"{_counts(plans)}; {least}{freed} would be freed; nothing was done")
    stranded = {session for each in plans for session in each["queued"]}
    if stranded:
        output.line(
            f"{words.count(len(stranded), 'queued session')} would find the image on no other host"
        )
    return _exit(plans)


def preload_outcome(plan: PreloadPlan) -> str:
    """`pull`, `nothing: it is there`, `fail: no-space: the disk is full`."""
    return {"skip": "nothing: it is there", "fail": _refusal(plan)}.get(
        plan["action"], plan["action"]
    )


def unload_outcome(plan: UnloadPlan) -> str:
    """`remove`, `remove the name only`, `nothing: it is not there`, `fail: in-use: …`."""
    would = {
        "untag": "remove the name only",
        "skip": "nothing: it is not there",
        "fail": _refusal(plan),
    }.get(plan["action"], plan["action"])
    return f"{would}, after task {plan['waitsFor']}" if plan["waitsFor"] else would


def _refusal(plan: PreloadPlan | UnloadPlan) -> str:
    failure = plan["failure"]
    return f"fail: {failure['class']}: {failure['message']}" if failure else "fail"


def _download(plan: PreloadPlan) -> str:
    """`1.2 GiB of 3.4 GiB`: what is there already is not fetched again."""
    if plan["action"] != "pull":
        return "-"
    most = "" if _is_exact(plan) else "at most "
    return f"{most}{words.size(_missing(plan))} of {words.size(plan['bytesTotal'])}"


def _missing(plan: PreloadPlan) -> int:
    missing = plan["bytesMissing"]
    return plan["bytesTotal"] if missing is None else missing


def _is_exact(plan: PreloadPlan) -> bool:
    return plan["layersKnown"] and plan["bytesMissing"] is not None


def _bytes(number: int | None) -> str:
    return _NOT_KNOWN if number is None else words.size(number)


def _names(names: Iterable[str]) -> str:
    return ", ".join(names) or "-"


def _counts(plans: Sequence[PreloadPlan | UnloadPlan]) -> str:
    """`would pull 2, skip 1, fail 1`."""
    numbers = Counter(each["action"] for each in plans)
    return "would " + ", ".join(f"{action} {number}" for action, number in numbers.items())


def _exit(plans: Sequence[PreloadPlan | UnloadPlan]) -> Exit:
    """As the deed itself would end."""
    failing = sum(each["action"] == "fail" for each in plans)
    if not failing:
        return Exit.OK
    return Exit.FAILED if failing == len(plans) else Exit.PARTIAL
