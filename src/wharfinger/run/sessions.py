"""Sessions composed: the service, and the loops that bring kernels from state to state."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from wharfinger.domain.states import KernelStatus
from wharfinger.manager.bus.port import Bus
from wharfinger.manager.catalogue.registries import Registries
from wharfinger.manager.fleet.calls import AgentCalls
from wharfinger.manager.loops import Loop
from wharfinger.manager.scheduler.dispatcher import Dispatcher, Observe
from wharfinger.manager.sessions.bells import SessionBells
from wharfinger.manager.sessions.check_precond import CheckPrecond
from wharfinger.manager.sessions.doorbells import Doorbells
from wharfinger.manager.sessions.live import LivePulls
from wharfinger.manager.sessions.logs import KernelLogs
from wharfinger.manager.sessions.resolving import Resolve
from wharfinger.manager.sessions.retention import Retention
from wharfinger.manager.sessions.service import Sessions
from wharfinger.manager.sessions.start_containers import StartContainers
from wharfinger.manager.sessions.sweep import Sweep
from wharfinger.manager.sessions.terminating import Terminate
from wharfinger.manager.storage.port import Storage
from wharfinger.registry.client import RegistryClient
from wharfinger.run.settings import ManagerSettings


@dataclass(frozen=True, slots=True)
class RunningSessions:
    """The service, and all the loops that it rests on."""

    service: Sessions
    loops: Sequence[Loop]


@asynccontextmanager
async def running_sessions(
    settings: ManagerSettings,
    storage: Storage,
    bus: Bus,
    calls: AgentCalls,
    registries: Registries,
    client: RegistryClient,
    *,
    by: str,
    observe: Observe,
) -> AsyncIterator[RunningSessions]:
    """Sessions for as long as the context is open; `observe` is told of the scheduler's rounds."""
    bells = SessionBells(storage, bus)
    live = LivePulls(bus)
    resolve = Resolve(storage, bus, registries, client, by=by)
    dispatcher = Dispatcher(storage, bus, by=by, observe=observe)
    check_precond = CheckPrecond(storage, bus, calls, registries, client, settings.limits, by=by)
    start_containers = StartContainers(storage, bus, calls, settings.limits, by=by)
    terminate = Terminate(storage, bus, calls, by=by)
    sweep = Sweep(storage, bus, by=by, lost_grace=settings.session_lost_grace_seconds)
    moving = (resolve, dispatcher, check_precond, start_containers, terminate, sweep)
    retention = Retention(storage, keep=settings.session_retention_days * 86400)
    doorbells = Doorbells(
        bus,
        [each.loop for each in moving],
        {
            KernelStatus.PENDING: (resolve.loop, dispatcher.loop),
            KernelStatus.SCHEDULED: (check_precond.loop,),
            KernelStatus.PREPARED: (start_containers.loop,),
            KernelStatus.TERMINATING: (terminate.loop, check_precond.loop),
        },
    )
    async with AsyncExitStack() as closing:
        for part in (*moving, retention):
            closing.push_async_callback(part.stop)
            await part.start()
        for listening in (doorbells, live, bells):
            closing.push_async_callback(listening.stop)
            listening.start()
        yield RunningSessions(
            Sessions(storage, bus, registries, live, bells, KernelLogs(storage, calls, bells)),
            (
                *bells.loops,
                live.loop,
                *(each.loop for each in moving),
                retention.loop,
            ),
        )
