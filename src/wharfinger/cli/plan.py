"""What a preload or an unload would be asked of whom: `--dry-run`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

from wharfinger.cli import output, words
from wharfinger.client.api import Api
from wharfinger.client.shapes import Agent
from wharfinger.domain.references import Reference
from wharfinger.domain.selectors import select


class Step(TypedDict):
    """One agent and one image; `rootDigest` is what the agent holds under the reference now."""

    agentId: str
    agentStatus: str
    reference: str
    present: bool
    rootDigest: str | None


class Plan(TypedDict):
    """All of it. Tags are not resolved: only the task itself asks registries."""

    operation: str
    items: list[Step]


@dataclass(frozen=True, slots=True)
class _Candidate:
    """An agent as selectors look at it."""

    agent: Agent

    @property
    def id(self) -> str:
        return self.agent["id"]

    @property
    def scaling_group(self) -> str:
        return self.agent["scalingGroup"]


async def plan(
    operation: str, references: Sequence[str], selectors: Sequence[str], api: Api
) -> Plan:
    """Every selected agent with every image. Raises what the manager would refuse it with."""
    wanted = list(dict.fromkeys(str(Reference.parse(text)) for text in references))
    agents = [_Candidate(agent) for agent in await api.agents() if agent["status"] != "RETIRED"]
    held = {
        (place["agentId"], image["reference"]): image["rootDigest"]
        for reference in wanted
        for image in await api.images(reference=reference)
        for place in image["agents"]
        if place["status"] == "present"
    }
    steps = [
        Step(
            agentId=candidate.id,
            agentStatus=candidate.agent["status"],
            reference=reference,
            present=(candidate.id, reference) in held,
            rootDigest=held.get((candidate.id, reference)),
        )
        for reference in wanted
        for candidate in select(selectors, agents)
    ]
    return Plan(operation=operation, items=steps)


def show_plan(planned: Plan, *, as_json: bool) -> None:
    """The document, or a table and a sentence."""
    if as_json:
        output.document(planned)
        return
    output.table(
        ("AGENT", "STATUS", "IMAGE", "HOLDS NOW"),
        [
            (
                step["agentId"],
                step["agentStatus"],
                step["reference"],
                output.digest(step["rootDigest"]) if step["present"] else "nothing",
            )
            for step in planned["items"]
        ],
        empty="",
    )
    agents = {step["agentId"] for step in planned["items"]}
    images = {step["reference"] for step in planned["items"]}
    unasked = ", and no registry was asked" if planned["operation"] == "preload" else ""
    output.line(
        f"would {planned['operation']} {words.count(len(images), 'image')} "
        f"on {words.count(len(agents), 'agent')}; nothing was done{unasked}"
    )
