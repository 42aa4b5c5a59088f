"""What is given to mutations, made into what the services take."""

from collections.abc import Sequence
from typing import Any

import strawberry

from wharfinger.domain.errors import InvalidRequest
from wharfinger.domain.slots import MOST, Slots, parse_cpu
from wharfinger.manager.access.limits import LimitChanges
from wharfinger.manager.api.graphql.scalars import BigInt, big
from wharfinger.manager.sessions.requests import KernelRequest, SessionRequest


@strawberry.input(description="One variable of a container's environment")
class EnvironmentVariable:
    """`NAME=value`."""

    name: str
    value: str


@strawberry.input(description="What one container of a session is to be")
class KernelSpec:
    """`cpu` is processors, with three decimals at most; `mem` is bytes. An empty command means the
    image's own."""

    reference: str
    cpu: float = 1.0
    mem: BigInt = big(1024**3)
    gpu: int = 0
    command: list[str] = strawberry.field(default_factory=list)
    environment: list[EnvironmentVariable] = strawberry.field(default_factory=list)


def session_request(
    kernels: Sequence[KernelSpec], name: str | None, scaling_group: str | None
) -> SessionRequest:
    """The request; raises `InvalidRequest` naming the field that is wrong."""
    return SessionRequest(
        [_kernel(spec, f"kernels[{place}]") for place, spec in enumerate(kernels)],
        name=name or "",
        scaling_group=scaling_group,
    )


def limit_changes(
    *, max_sessions: Any, cpu: Any, mem: Any, gpu: Any, scaling_groups: Any
) -> LimitChanges:
    """The changes that were given; raises `InvalidRequest` naming the field that is wrong."""
    given = {
        "sessions": max_sessions,
        "cpu": _limit_of_cpu(cpu),
        "mem": mem,
        "gpu": gpu,
        "scaling_groups": scaling_groups,
    }
    return LimitChanges(
        {name: value for name, value in given.items() if value is not strawberry.UNSET}
    )


def _kernel(spec: KernelSpec, where: str) -> KernelRequest:
    if not 0 < spec.mem <= MOST:
        raise InvalidRequest(f"{where}.mem is from 1 to {MOST} bytes", field=f"{where}.mem")
    if spec.gpu < 0:
        raise InvalidRequest(f"{where}.gpu is 0 or more", field=f"{where}.gpu")
    slots = Slots(_thousandths(spec.cpu, f"{where}.cpu"), spec.mem, spec.gpu)
    return KernelRequest(
        spec.reference,
        slots,
        tuple(spec.command),
        _environment(spec.environment, f"{where}.environment"),
    )


def _environment(variables: Sequence[EnvironmentVariable], where: str) -> dict[str, str]:
    environment: dict[str, str] = {}
    for variable in variables:
        if not variable.name or "=" in variable.name:
            raise InvalidRequest(f"{where}: {variable.name!r} is no name", field=where)
        if variable.name in environment:
            raise InvalidRequest(f"{where}: {variable.name!r} is given twice", field=where)
        environment[variable.name] = variable.value
    return environment


def _limit_of_cpu(cpu: Any) -> Any:
    if cpu is strawberry.UNSET or cpu is None:
        return cpu
    return 0 if cpu == 0 else _thousandths(cpu, "cpu")


def _thousandths(cpu: float, field: str) -> int:
    try:
        return parse_cpu(repr(float(cpu)))
    except InvalidRequest:
        raise InvalidRequest(
            f"{field} is a number of processors with three decimals at most, not {cpu!r}",
            field=field,
        ) from None
