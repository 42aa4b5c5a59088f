"""Which layers images share."""

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st
from rig.misbehaving_engine import MisbehavingEngine

from wharfinger.agent.chains import LayerChains, chains
from wharfinger.agent.engine.port import LocalImage

A = LocalImage("id-a", (), (), 1, None, ("base", "tools", "a"))
B = LocalImage("id-b", (), (), 1, None, ("base", "tools", "b", "more"))
C = LocalImage("id-c", (), (), 1, None, ("other", "tools", "a"))

contents = st.lists(st.sampled_from("xyz"), max_size=5)


@dataclass
class CountingEngine(MisbehavingEngine):
    """Counts how often it was asked about each image."""

    inspected: list[str] = field(default_factory=list)

    async def inspect(self, name: str) -> LocalImage | None:
        self.inspected.append(name)
        return await super().inspect(name)


def engine_with(*images: LocalImage) -> CountingEngine:
    return CountingEngine(held={image.image_id: image for image in images})


async def test_the_lowest_layers_are_shared_as_far_as_all_below_is_the_same() -> None:
    layers = LayerChains(engine_with(A, B, C))
    await layers.refresh()
    assert [layers.shared(image) for image in (A, B, C)] == [2, 2, 0]
    assert layers.held(("base", "tools", "b", "new")) == 3
    assert layers.held(("tools", "a")) == 0
    assert layers.held(()) == 0


async def test_each_image_is_asked_for_once_and_forgotten_when_it_is_gone() -> None:
    engine = engine_with(A, B)
    layers = LayerChains(engine)
    await layers.refresh()
    await layers.refresh()
    assert sorted(engine.inspected) == ["id-a", "id-b"]
    del engine.held["id-b"]
    await layers.refresh()
    assert layers.shared(A) == 0
    assert layers.held(B.diff_ids) == 2


async def test_an_image_that_goes_while_it_is_asked_for_shares_nothing() -> None:
    engine = CountingEngine(held={"elsewhere": A})
    layers = LayerChains(engine)
    assert list(await layers.refresh()) == [A]
    assert layers.held(A.diff_ids) == 0


@given(contents, contents)
def test_chains_agree_exactly_as_far_as_the_layers_do(one: list[str], other: list[str]) -> None:
    alike = [mine == theirs for mine, theirs in zip(chains(one), chains(other), strict=False)]
    layers = [
        one[: length + 1] == other[: length + 1] for length in range(min(len(one), len(other)))
    ]
    assert alike == layers
