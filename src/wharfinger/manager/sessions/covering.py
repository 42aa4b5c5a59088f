"""A reason that hides another one for a while: an agent that is away, a container that stays.

What a kernel said before comes back when the reason is gone. It stands in `status_data` as
`before: {statusInfo, statusData}` where there was any.
"""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection

from wharfinger.domain.sessions import Reason
from wharfinger.manager.sessions import kernels
from wharfinger.manager.sessions.kernels import Kernel

_COVERS = (Reason.AGENT_LOST, Reason.CONTAINER_LEFT, Reason.RETRYING)


def cover(conn: Connection, kernel: Kernel, info: Reason, data: Mapping[str, Any]) -> bool:
    """Say this for now; whether that is news."""
    before, before_data = underneath(kernel)
    if before is not None:
        data = {**data, "before": {"statusInfo": before.value, "statusData": before_data}}
    return kernels.explain(conn, kernel, info, data)


def uncover(conn: Connection, kernel: Kernel) -> bool:
    """Say again what was said before; whether anything was covered."""
    return kernels.explain(conn, kernel, *underneath(kernel))


def underneath(kernel: Kernel) -> tuple[Reason | None, Mapping[str, Any] | None]:
    """What it says apart from what covers it."""
    if kernel.status_info not in _COVERS:
        return kernel.status_info, kernel.status_data
    before = (kernel.status_data or {}).get("before")
    if before is None:
        return None, None
    return Reason(before["statusInfo"]), before["statusData"]
