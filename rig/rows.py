"""Rows that tests of the manager's transactions begin with."""

from typing import Any

from sqlalchemy import Connection, insert

from wharfinger.domain.states import AgentStatus, TaskStatus
from wharfinger.manager.storage import tables


def insert_agent(conn: Connection, agent_id: str, **differing: Any) -> None:
    """An agent that is UP on linux/amd64; its group is the first letter of its id."""
    usual = {
        "id": agent_id,
        "scaling_group": agent_id[0],
        "status": AgentStatus.UP,
        "cordoned": False,
        "os": "linux",
        "architecture": "amd64",
        "variant": "",
        "version": "0",
        "engine": {"kind": "docker", "version": "", "store": ""},
        "slots": {},
        "address": "http://127.0.0.1:1",
        "incarnation": "i1",
        "call_token_encrypted": "",
        "credential_sha256": agent_id,
        "inventory_version": "v1",
        "reports_begun": 1,
        "heard_at": 0.0,
        "created_at": 0.0,
    }
    conn.execute(insert(tables.agents).values(usual | differing))


def insert_task(conn: Connection, task_id: str, **differing: Any) -> None:
    """A preload in its first run."""
    usual = {
        "id": task_id,
        "name": "preload",
        "owner_id": "u1",
        "status": TaskStatus.RUNNING,
        "cancel_requested": False,
        "current": 0,
        "total": 0,
        "unit": "bytes",
        "message": "",
        "arguments": {},
        "epoch": 1,
        "created_at": 0.0,
    }
    conn.execute(insert(tables.tasks).values(usual | differing))
