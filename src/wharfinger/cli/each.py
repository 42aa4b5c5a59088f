"""One change asked for several things, whatever becomes of one of them."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from wharfinger.cli import output, words
from wharfinger.cli.exits import Exit
from wharfinger.client.errors import RemoteError, ServerUnreachable
from wharfinger.domain.errors import UnknownId, WharfingerError

T = TypeVar("T")


@dataclass(slots=True)
class Outcomes(Generic[T]):
    """What became of the `wanted`: the answers, and what was refused, by name."""

    wanted: Sequence[str]
    done: list[T] = field(default_factory=list)
    refusals: dict[str, WharfingerError] = field(default_factory=dict)


async def ask_each(names: Sequence[str], change: Callable[[str], Awaitable[T]]) -> Outcomes[T]:
    """Ask for each name once. Where the manager is lost, the rest is not asked for."""
    outcomes: Outcomes[T] = Outcomes(list(dict.fromkeys(names)))
    for name in outcomes.wanted:
        try:
            outcomes.done.append(await change(name))
        except (RemoteError, UnknownId) as refusal:
            outcomes.refusals[name] = refusal
        except ServerUnreachable as lost:
            outcomes.refusals[name] = lost
            break
    return outcomes


def tell(outcomes: Outcomes[T], sentence: Callable[[T], str], *, as_json: bool) -> Exit:
    """The answers: as JSON one for one name, an array for several; where only some are done,
    `{"done": […], "errors": [{"of", "class", "message", "detail"}]}`. Raises the first refusal
    where nothing is."""
    done, refusals = outcomes.done, outcomes.refusals
    alone = len(outcomes.wanted) == 1
    if refusals and (alone or not done):
        for answer in done:
            output.note(sentence(answer))
        first, *others = refusals.values()
        _note(others)
        raise first
    if not as_json:
        for answer in done:
            output.line(sentence(answer))
    elif refusals:
        errors = [{"of": name, **error.to_json()} for name, error in refusals.items()]
        output.document({"done": done, "errors": errors})
    else:
        output.document(done[0] if alone else done)
    _note(refusals.values())
    return Exit.PARTIAL if refusals else Exit.OK


def _note(refusals: Iterable[WharfingerError]) -> None:
    for refusal in refusals:
        output.note(f"error: {words.remark(words.plain(refusal.message))}")
