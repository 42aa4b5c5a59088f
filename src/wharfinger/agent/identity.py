"""The one file an agent keeps: its id and the credential the manager gave it."""

import json
import os
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from wharfinger.domain.errors import WharfingerError

FILE_NAME: Final = "agent.json"


class UnreadableIdentity(WharfingerError):
    """The agent's identity file cannot be used."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who the agent is to its manager. `credential` is None before it first joined."""

    agent_id: str
    credential: str | None = None


class IdentityFile:
    """The identity of the agent whose state folder this is."""

    def __init__(self, state_dir: Path, agent_id: str) -> None:
        self.path = state_dir / FILE_NAME
        self._agent_id = agent_id

    def load(self) -> Identity:
        """What was kept, or an identity that never joined.

        Raises `UnreadableIdentity` when the file is damaged or another agent's: registering with
        it would take over that agent's images.
        """
        try:
            kept = json.loads(self.path.read_text())
            identity = Identity(str(kept["agent_id"]), kept["credential"])
        except FileNotFoundError:
            return Identity(self._agent_id)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UnreadableIdentity(f"cannot read {self.path}: {error}") from error
        if identity.agent_id != self._agent_id:
            raise UnreadableIdentity(
                f"{self.path} belongs to agent {identity.agent_id!r}, not to {self._agent_id!r}: "
                "give each agent a state folder of its own"
            )
        return identity

    def save(self, identity: Identity) -> None:
        """Keep it, readable by its owner alone; a crash leaves the old file or the new one."""
        folder = self.path.parent
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, name = tempfile.mkstemp(prefix=f".{FILE_NAME}.", dir=folder)  # made 0600
        draft = Path(name)
        try:
            with os.fdopen(handle, "w") as file:
                json.dump(asdict(identity), file)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(self.path)
        except OSError:
            draft.unlink(missing_ok=True)
            raise
