import asyncio
from functools import partial

from wharfinger.agent.in_hand import KEPT_MOST, KEPT_SECONDS, InHand


class Work:
    """Waits to be let go; counts how often it began."""

    def __init__(self) -> None:
        self.let_go = asyncio.Event()
        self.begun = 0

    async def __call__(self) -> int:
        self.begun += 1
        await self.let_go.wait()
        return self.begun


async def test_who_asks_again_joins_what_is_under_way() -> None:
    work: InHand[int] = InHand()
    job = Work()
    asking = [asyncio.create_task(work.ask({"k": job}, 5)) for _ in range(2)]
    await asyncio.sleep(0)
    assert list(work.keys) == ["k"]
    job.let_go.set()
    assert await asyncio.gather(*asking) == [{"k": 1}, {"k": 1}]
    assert not work.keys


async def test_work_goes_on_without_its_caller_and_keeps_the_result_for_the_next() -> None:
    work: InHand[int] = InHand()
    job = Work()
    assert await work.ask({"k": job}, 0) == {}
    job.let_go.set()
    await work.finished("k")
    assert await work.ask({"k": job}, 5) == {"k": 1}
    assert await work.ask({"k": job}, 5) == {"k": 2}


async def test_a_result_that_is_no_longer_true_is_dropped() -> None:
    work: InHand[int] = InHand()
    job = Work()
    await work.ask({"k": job}, 0)
    job.let_go.set()
    await work.finished("k")
    work.drop("k")
    assert await work.ask({"k": job}, 5) == {"k": 2}


async def test_results_nobody_wants_are_forgotten() -> None:
    now = 0.0
    work: InHand[int] = InHand(lambda: now)
    jobs = {str(number): Work() for number in range(KEPT_MOST + 1)}
    await work.ask(jobs, 0)
    for job in jobs.values():
        job.let_go.set()
    await asyncio.gather(*map(work.finished, jobs))
    assert await work.ask({"0": jobs["0"], "1": jobs["1"]}, 5) == {"0": 2, "1": 1}
    now = KEPT_SECONDS + 1
    assert await work.ask({"2": jobs["2"]}, 5) == {"2": 2}


async def test_closing_ends_everything() -> None:
    work: InHand[int] = InHand()
    jobs = [Work(), Work()]
    asking = asyncio.create_task(work.ask({str(n): job for n, job in enumerate(jobs)}, 0))
    await asking
    await work.close()
    assert not work.keys


async def test_a_defect_is_raised_to_who_asked() -> None:
    async def defect(_: int) -> int:
        raise ZeroDivisionError

    work: InHand[int] = InHand()
    outcome = await asyncio.gather(work.ask({"k": partial(defect, 1)}, 5), return_exceptions=True)
    assert isinstance(outcome[0], ZeroDivisionError)
    assert not work.keys
