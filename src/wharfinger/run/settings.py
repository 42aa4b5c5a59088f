"""Settings of the programs: from the environment (`WHARFINGER_…`), overridden by options."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from wharfinger.domain.errors import InvalidRequest
from wharfinger.domain.slots import parse_cpu, parse_mem
from wharfinger.manager.pulls.limits import Limits


def _cpu(given: Any) -> Any:
    return _parsed(parse_cpu, given)


def _mem(given: Any) -> Any:
    return _parsed(parse_mem, given)


def _parsed(parse: Callable[[str], int], given: Any) -> Any:
    if given is None:
        return None
    try:
        return parse(str(given))
    except InvalidRequest as error:
        raise ValueError(error.message) from error


def _redis(given: SecretStr | None) -> SecretStr | None:
    if given and not given.get_secret_value().startswith(("redis://", "rediss://", "unix://")):
        raise ValueError("not a URL of redis://, rediss:// or unix://")
    return given or None


Cpu = Annotated[int | None, BeforeValidator(_cpu)]
Mem = Annotated[int | None, BeforeValidator(_mem)]
Gpu = Annotated[int, Field(ge=0, le=1024)]
Network = Annotated[str, Field(pattern="^(default|none|host)$")]


def data_home() -> Path:
    """Where `up` keeps its data unless told otherwise (XDG base directories)."""
    base = os.environ.get("XDG_DATA_HOME", "")
    return (Path(base) if base.startswith("/") else Path.home() / ".local/share") / "wharfinger"


class ManagerSettings(BaseSettings):
    """One manager. Each field may be set by `WHARFINGER_` and its name in capitals."""

    model_config = SettingsConfigDict(env_prefix="WHARFINGER_", extra="ignore")

    host: str = "127.0.0.1"
    """The address the API listens on."""
    port: Annotated[int, Field(ge=0, le=65535)] = 8080
    """The port the API listens on; 0 takes any free one."""
    data_dir: Path = Field(default_factory=data_home)
    """The folder of the SQLite database, the key of the secrets and the agents' files."""
    database_url: SecretStr | None = None
    """`postgresql+psycopg://user:password@host/name`; SQLite in the data folder when not set."""
    redis_url: Annotated[SecretStr | None, AfterValidator(_redis)] = None
    """Valkey or Redis, over which several managers tell each other what is new:
    `redis://:password@host:port/0`, `rediss://…` (TLS) or `unix:///path`. Not needed for one."""
    secrets_key: SecretStr | None = None
    """The key that registry passwords are encrypted with, the same for all managers of a database;
    a file in the data folder when not set."""
    pulls_per_agent: Annotated[int, Field(ge=1)] = 3
    """Pulls in flight on one agent at most."""
    pulls_per_registry: Annotated[int, Field(ge=1)] = 64
    """Pulls in flight from one registry at most."""
    pulls_total: Annotated[int, Field(ge=1)] = 128
    """Pulls in flight in all at most."""
    disk_margin: Annotated[int, BeforeValidator(_mem)] = 2**30
    """Bytes that stay free on the disk of an engine's images (`1g`): no pull begins that would
    leave less."""
    protected_images: tuple[str, ...] = ()
    """References no unload takes away, as shell patterns (`["registry.example/base/*"]`)."""
    agent_lost_seconds: Annotated[float, Field(gt=0)] = 15.0
    """Without a heartbeat for this long an agent is LOST."""
    task_retention_days: Annotated[float, Field(gt=0)] = 7.0
    """Finished background tasks are kept this long."""
    session_lost_grace_seconds: Annotated[float, Field(ge=0)] = 600.0
    """Sessions that run on a LOST agent are given up after this long."""
    session_retention_days: Annotated[float, Field(gt=0)] = 7.0
    """Ended sessions and their logs are kept this long."""
    agent_cpu: Cpu = None
    """Processors that sessions may use of each engine of `up` (`8`, `0.5`); all when not set."""
    agent_mem: Mem = None
    """Memory that sessions may use of each engine of `up` (`64g`); all when not set."""
    agent_gpu: Gpu = 0
    """Graphics processors that sessions may use of each engine of `up`."""
    agent_network: Network = "default"
    """The network of sessions' containers: `default` (the engine's), `none` or `host`."""
    log_format: Annotated[str, Field(pattern="^(console|json)$")] = "console"
    """`console` for people, `json` for machines."""
    log_level: Annotated[str, Field(pattern="^(debug|info|warning|error)$")] = "info"
    """What is logged at least."""

    @property
    def storage_url(self) -> str:
        """The database in use."""
        if self.database_url is not None:
            return self.database_url.get_secret_value()
        return f"sqlite:///{self.data_dir / 'wharfinger.db'}"

    @property
    def limits(self) -> Limits:
        """The limits of pulls in flight."""
        return Limits(
            self.pulls_per_agent, self.pulls_per_registry, self.pulls_total, self.disk_margin
        )


class RemoteAgentSettings(BaseSettings):
    """One agent as a process of its own. `WHARFINGER_AGENT_` and the name in capitals."""

    model_config = SettingsConfigDict(env_prefix="WHARFINGER_AGENT_", extra="ignore")

    id: str
    """The agent's name in the cluster."""
    scaling_group: str = "default"
    """The scaling group it belongs to."""
    manager_url: str
    """Where the managers are reached."""
    join_token: SecretStr | None = None
    """Needed once, to join."""
    engine: str = "unix:///var/run/docker.sock"
    """The engine beside it."""
    host: str = "127.0.0.1"
    """The address it listens on for the managers' calls."""
    port: Annotated[int, Field(ge=0, le=65535)] = 0
    """The port it listens on; 0 takes any free one."""
    advertise: str | None = None
    """The URL managers reach it at, when that is not where it listens."""
    state_dir: Path = Field(default_factory=lambda: data_home() / "agent")
    """The folder of its identity file."""
    cpu: Cpu = None
    """Processors that sessions may use here (`8`, `0.5`); all when not set."""
    mem: Mem = None
    """Memory that sessions may use here (`64g`); all when not set."""
    gpu: Gpu = 0
    """Graphics processors that sessions may use here."""
    network: Network = "default"
    """The network of sessions' containers: `default` (the engine's), `none` or `host`."""
    log_format: Annotated[str, Field(pattern="^(console|json)$")] = "console"
    """`console` for people, `json` for machines."""
    log_level: Annotated[str, Field(pattern="^(debug|info|warning|error)$")] = "info"
    """What is logged at least."""
