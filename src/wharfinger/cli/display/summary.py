"""How a task ended, as a table and a sentence."""

from typing import Final

from wharfinger.cli import words
from wharfinger.cli.display import rescan_summary
from wharfinger.cli.display.layout import ORDER, tally, waits
from wharfinger.client.shapes import Item, Task

COLUMNS = ("AGENT", "IMAGE", "RESULT", "ATTEMPTS", "WHAT")

_NOTHING_TO_DO: Final = {"unload": "was not there", "preload": "was there already"}
"""What it means, by the task's name, that an item was skipped."""


def rows(task: Task) -> list[tuple[str, ...]]:
    """A row per host and image; what went wrong stands last, nearest to the prompt."""
    items = sorted(task["items"], key=lambda item: _rank(item["status"]))
    return [
        (
            item["agentId"],
            item["reference"],
            item["status"],
            str(item["attempts"]),
            what(item, task["name"]),
        )
        for item in items
    ]


def adds_to_bars(task: Task) -> bool:
    """Whether there is more to tell than that everything was done, as the last bars show."""
    return any(item["status"] != "done" or item["keptBy"] for item in task["items"])


def what(item: Item, task_name: str) -> str:
    """Why it failed, what was done or why nothing was, or what keeps the layers."""
    failure = item["failure"]
    if failure and item["status"] != "done":
        return f"{failure['class']}: {failure['message']}"
    if item["keptBy"]:
        return f"layers kept by {', '.join(item['keptBy'])}"
    if item["status"] == "skipped":
        return _NOTHING_TO_DO.get(task_name, "nothing to do")
    if item["status"] == "done" and item["bytesTotal"]:
        return words.size(item["bytesTotal"])
    return ""


def sentence(task: Task) -> str:
    """`preload 4f2a partially succeeded: 3 done, 1 failed`, `rescan 4f2a succeeded: 2 new, …`."""
    if found := rescan_summary.registries(task):
        counts = rescan_summary.counts(found)
    else:
        counts = ", ".join(f"{number} {status}" for status, number in tally(task["items"]))
    text = f"{task['name']} {task['id']} {task['status'].replace('_', ' ')}"
    if counts:
        text += f": {counts}"
    failure = task["failure"]
    if failure:
        text += f"; {failure['class']}: {failure['message']}"
    elif task["message"] and (waits(task) or not counts):
        text += f"{'; ' if counts else ': '}{task['message']}"
    return words.plain(text)


def _rank(status: str) -> int:
    """The reverse of the live display's order: there the bottom is cut off."""
    return -ORDER.index(status) if status in ORDER else 1
