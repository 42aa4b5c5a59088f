"""What routes are given."""

from typing import Annotated

from fastapi import Depends, Request

from wharfinger.manager.access.permissions import Ownership
from wharfinger.manager.access.principal import Principal
from wharfinger.manager.api.services import Services


async def _services(request: Request) -> Services:
    services: Services = request.app.state.services
    return services


async def _principal(request: Request) -> Principal:
    principal: Principal = request.state.principal
    return principal


async def _ownership(request: Request) -> Ownership:
    ownership: Ownership = request.state.ownership
    return ownership


async def _bearer(request: Request) -> str:
    return str(request.state.bearer)


TheServices = Annotated[Services, Depends(_services)]
Caller = Annotated[Principal, Depends(_principal)]
CallerOwns = Annotated[Ownership, Depends(_ownership)]
Bearer = Annotated[str, Depends(_bearer)]
