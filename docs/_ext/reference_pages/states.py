"""States, from the tables that decide."""

from typing import Any

from reference_pages.markdown import code, page, table
from wharfinger.domain.states import ALL_TRANSITIONS, TransitionTable


def states() -> str:
    """A diagram and a table for each kind of thing."""
    sections = [_section(transitions) for transitions in ALL_TRANSITIONS]
    return page(
        "States",
        "What may follow what. Every change in the database is a compare-and-set from the state "
        "expected, and leaves a row in the transition log; what is not in these tables cannot "
        "happen.",
        *sections,
    )


def _section(transitions: TransitionTable[Any]) -> str:
    rows = [
        (code(source), code(target), reason)
        for source, targets in transitions.edges.items()
        for target, reason in targets.items()
    ]
    return "\n\n".join(
        (
            f"## {transitions.name.capitalize()}",
            _diagram(transitions),
            table(("from", "to", "when"), rows),
            "Ends: "
            + (", ".join(code(s) for s in transitions.states if s in transitions.terminal)),
        )
    )


def _diagram(transitions: TransitionTable[Any]) -> str:
    lines = ["```{mermaid}", "stateDiagram-v2", f"  [*] --> {transitions.initial}"]
    lines += [
        f"  {source} --> {target}"
        for source, targets in transitions.edges.items()
        for target in targets
    ]
    lines += [f"  {state} --> [*]" for state in transitions.states if state in transitions.terminal]
    return "\n".join([*lines, "```"])
