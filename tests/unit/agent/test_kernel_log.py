import asyncio
from contextlib import aclosing

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rig.containers_in_memory import ContainersInMemory

from wharfinger.agent.kernel_log import KernelLogs, Tail


@given(st.lists(st.binary(max_size=9)), st.integers(0, 12))
def test_a_tail_is_the_last_bytes_in_bounded_memory(pieces: list[bytes], limit: int) -> None:
    tail = Tail(limit)
    for piece in pieces:
        tail.add(piece)
    whole = b"".join(pieces)
    assert tail.data == whole[len(whole) - min(limit, len(whole)) :]
    assert tail.truncated is (len(whole) > limit)


@pytest.fixture
def engine() -> ContainersInMemory:
    engine = ContainersInMemory(log=b"what it said before, ")
    engine.put("c")
    return engine


@pytest.mark.parametrize(("tail_bytes", "shown"), [(0, b""), (8, b"before, "), (99, b"what ")])
async def test_the_end_of_what_is_there_comes_first(
    engine: ContainersInMemory, tail_bytes: int, shown: bytes
) -> None:
    logs = KernelLogs(engine)
    pieces = [piece async for piece in logs.stream("c", tail_bytes=tail_bytes, follow=False)]
    assert b"".join(pieces).startswith(shown)
    assert b"".join(pieces) == engine.log[max(0, len(engine.log) - tail_bytes) :]


@pytest.mark.parametrize("tail_bytes", [8, 99])
async def test_what_comes_is_followed_without_a_repetition(
    engine: ContainersInMemory, tail_bytes: int
) -> None:
    old, new = engine.log, b"and what it said later"
    async with (
        asyncio.timeout(5),
        aclosing(KernelLogs(engine).stream("c", tail_bytes=tail_bytes, follow=True)) as pieces,
    ):
        heard = await anext(pieces)
        engine.log = old + new
        while not heard.endswith(new):
            heard += await anext(pieces)
    assert heard == old[max(0, len(old) - tail_bytes) :] + new
