from rig.rows import insert_agent
from rig.session_rows import add_session, advance
from sqlalchemy import Connection

from wharfinger.domain.slots import Slots
from wharfinger.domain.states import KernelStatus
from wharfinger.manager.fleet import agents
from wharfinger.manager.storage.port import Storage


def kernels_on_one(conn: Connection) -> None:
    """Agent `one` has a pull, and a session of two kernels of which one has ended; `two` nothing."""
    for agent_id in ("one", "two"):
        insert_agent(conn, agent_id)
    add_session(conn, "pulls")
    add_session(conn, "runs", kernel_count=2)
    advance(conn, "pulls-k1", upto=KernelStatus.PULLING, agent_id="one")
    advance(conn, "runs-k1", upto=KernelStatus.TERMINATED, agent_id="one")
    advance(conn, "runs-k2", upto=KernelStatus.TERMINATING, agent_id="one")


async def test_agents_are_shown_with_what_their_kernels_reserve(storage: Storage) -> None:
    await storage.write(kernels_on_one)
    one, two = await storage.read(lambda conn: agents.occupied(conn, agents.present(conn)))
    assert (one.occupied, one.sessions) == (Slots(3000, 2 * 2**30).to_json(), 2)
    assert (two.occupied, two.sessions) == (Slots().to_json(), 0)
