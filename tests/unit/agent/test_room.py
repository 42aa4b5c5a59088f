"""A pull that surely does not fit is not begun; every other one is."""

from collections.abc import Sequence

import pytest
from rig.misbehaving_engine import DIGEST, NAME, MisbehavingEngine

from wharfinger.agent.chains import LayerChains
from wharfinger.agent.engine.port import EngineError, LayerEvent, LayerStep, LocalImage
from wharfinger.agent.progress import PullProgress
from wharfinger.agent.room import Room
from wharfinger.contracts.rpc import PullOrder, PullPolicy
from wharfinger.contracts.wire import DiskSpace, LayerSize
from wharfinger.domain.failures import FailureClass

GIB = 1024**3
BASE, TOP, OTHER = ("b" * 64, GIB), ("c" * 64, GIB), ("e" * 64, GIB)
CLASSIC, CONTAINERD = "classic", "containerd"


def order(
    *layers: tuple[str, int], diff_ids: Sequence[str] = (), margin: int = 0, root: str = DIGEST
) -> PullOrder:
    return PullOrder(
        attempt_id="t1",
        reference=f"{NAME}:v1",
        root_digest=root,
        layers=tuple(LayerSize(digest=f"sha256:{name}", size=size) for name, size in layers),
        diff_ids=tuple(diff_ids),
        disk_margin=margin,
        policy=PullPolicy.PRELOAD,
    )


def progress_of(wanted: PullOrder) -> PullProgress:
    return PullProgress(layer.layer() for layer in wanted.layers)


class Host:
    """One engine with so many GiB free of 20."""

    def __init__(self, free: float | None) -> None:
        space = None if free is None else DiskSpace(free=int(free * GIB), total=20 * GIB)
        self.engine = MisbehavingEngine(space=space)
        self.room = Room(self.engine, LayerChains(self.engine))

    def has(self, *diff_ids: str) -> None:
        self.engine.held["id-1"] = LocalImage("id-1", (), (), 1, None, diff_ids)

    async def admits(self, wanted: PullOrder, store: str = CLASSIC) -> bool:
        try:
            async with self.room.claim(wanted, store, progress_of(wanted)):
                return True
        except EngineError as error:
            return error.failure.failure_class is not FailureClass.NO_SPACE


@pytest.mark.parametrize(
    ("store", "free", "fits"),
    [
        (CLASSIC, 3.0, True),
        (CLASSIC, 2.9, False),
        (CONTAINERD, 4.0, True),
        (CONTAINERD, 3.9, False),
        ("overlay", 2.0, True),
        ("overlay", 1.9, False),
    ],
)
async def test_what_fits_is_told_by_the_stores_way_of_counting(
    store: str, free: float, fits: bool
) -> None:
    assert await Host(free).admits(order(BASE, TOP), store) is fits


async def test_a_margin_stays_free() -> None:
    assert await Host(4).admits(order(BASE, margin=2 * GIB))
    assert not await Host(4).admits(order(BASE, margin=2 * GIB + 1))


async def test_layers_that_are_there_need_no_room() -> None:
    host = Host(2)
    host.has("base", "another")
    assert await host.admits(order(BASE, TOP, diff_ids=("base", "top")))
    assert not await host.admits(order(BASE, TOP, diff_ids=("changed", "top")))
    assert not await host.admits(order(BASE, TOP))


async def test_an_image_that_is_there_under_another_name_is_never_refused() -> None:
    host = Host(0)
    host.engine.held["elsewhere"] = LocalImage("id-1", (), (f"example.org/b@{DIGEST}",), 1)
    assert await host.admits(order(BASE, margin=GIB))


async def test_a_disk_that_cannot_be_seen_refuses_nothing() -> None:
    assert await Host(None).admits(order(BASE, margin=100 * GIB))


async def test_the_refusal_tells_every_figure() -> None:
    host = Host(1.9)
    wanted = order(BASE, TOP, margin=GIB)
    with pytest.raises(EngineError) as refused:
        async with host.room.claim(wanted, CLASSIC, progress_of(wanted)):
            pass
    assert refused.value.failure.message == (
        "needs at least 3.0 GiB for 2.0 GiB to download, 1.9 GiB are free of 20.0 GiB and 1.0 GiB "
        "is to stay free: remove images or give the disk more room"
    )


async def test_other_pulls_keep_what_they_still_need() -> None:
    host = Host(2.9)
    first, second = order(BASE), order(OTHER)
    progress = progress_of(first)
    async with host.room.claim(first, CLASSIC, progress):
        assert not await host.admits(second)
        progress.saw(LayerEvent("b" * 12, LayerStep.DOWNLOADED))
        assert await host.admits(second)
    assert await host.admits(second)


async def test_a_pull_that_has_ended_keeps_nothing() -> None:
    host = Host(3)
    with pytest.raises(ZeroDivisionError):
        async with host.room.claim(order(BASE), CLASSIC, progress_of(order(BASE))):
            raise ZeroDivisionError
    assert await host.admits(order(OTHER, margin=GIB))


async def test_a_layer_that_several_pulls_fetch_needs_room_once() -> None:
    host = Host(5)
    first, second, third = order(BASE), order(BASE, TOP), order(BASE, OTHER, margin=GIB)
    async with (
        host.room.claim(first, CONTAINERD, progress_of(first)),
        host.room.claim(second, "overlay", progress_of(second)),
    ):
        assert await host.admits(third, "overlay")
        assert not await host.admits(third, CONTAINERD)


async def test_what_others_have_already_is_found_out_before_anybody_is_refused() -> None:
    host = Host(5)
    host.has("base")
    first = order(BASE, TOP, diff_ids=("base", "top"))
    second = order(OTHER, diff_ids=("other",), margin=GIB)
    async with host.room.claim(first, CLASSIC, progress_of(first)):
        assert await host.admits(second)


async def test_an_engine_that_does_not_tell_refuses_nothing() -> None:
    host = Host(0)
    host.has("base")
    host.engine.dead = True
    assert await host.admits(order(BASE))
