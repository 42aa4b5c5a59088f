from rig.misbehaving_engine import DEAD, MisbehavingEngine

from wharfinger.agent.disk_watch import DiskWatch
from wharfinger.contracts.wire import DiskSpace

SPACE = DiskSpace(free=1, total=2)


async def test_the_disk_of_an_engine_that_does_not_answer_is_not_known() -> None:
    class Mute(MisbehavingEngine):
        async def disk(self) -> DiskSpace | None:
            if self.dead:
                raise DEAD
            return SPACE

    engine = Mute()
    watch = DiskWatch(engine)
    assert watch.current is None
    await watch.measure()
    assert watch.current == SPACE
    engine.dead = True
    await watch.measure()
    assert watch.current is None
