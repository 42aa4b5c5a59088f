"""The tables. Times are seconds since the epoch (UTC) by the database's clock.

Ids are opaque text. Statuses are the words of `wharfinger.domain.states`, enforced by CHECKs.
"""

from enum import StrEnum

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)

from wharfinger.domain.gate import PreparationKind
from wharfinger.domain.states import (
    AgentStatus,
    AttemptStatus,
    ItemStatus,
    KernelStatus,
    TaskStatus,
)

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


_MAYBE_JSON = JSON(none_as_null=True)


def _one_of(column: str, states: type[StrEnum]) -> CheckConstraint:
    words = ", ".join(f"'{state.value}'" for state in states)
    return CheckConstraint(f"{column} IN ({words})", name=column)


cluster = Table(
    "cluster",
    metadata,
    Column("id", Text, primary_key=True),  # one row: marks the containers of this cluster
)

users = Table(
    "users",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("role", Text, nullable=False),
    Column("created_at", Double, nullable=False),
    # at most; none is no limit
    Column("max_sessions", Integer),
    Column("max_cpu", BigInteger),  # thousandths of a processor
    Column("max_mem", BigInteger),
    Column("max_gpu", BigInteger),
    Column("scaling_groups", _MAYBE_JSON),  # a list of names; none is all
    CheckConstraint("role IN ('superadmin', 'user')", name="role"),
)

tokens = Table(
    "tokens",
    metadata,
    Column("id", Text, primary_key=True),
    Column("user_id", ForeignKey("users.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("sha256", Text, nullable=False, unique=True),
    Column("label", Text, nullable=False),
    Column("created_at", Double, nullable=False),
)

join_tokens = Table(
    "join_tokens",
    metadata,
    Column("id", Text, primary_key=True),
    Column("sha256", Text, nullable=False, unique=True),
    Column("label", Text, nullable=False),
    Column("created_at", Double, nullable=False),
)

registries = Table(
    "registries",
    metadata,
    Column("host", Text, primary_key=True),  # host[:port], as references name it
    Column("url", Text, nullable=False),  # scheme://host[:port] where it is asked
    Column("username", Text),
    Column("password_encrypted", Text),
    Column("created_at", Double, nullable=False),
)

agents = Table(
    "agents",
    metadata,
    Column("id", Text, primary_key=True),
    Column("scaling_group", Text, nullable=False, index=True),
    Column("status", Text, nullable=False),
    Column("cordoned", Boolean, nullable=False),
    Column("os", Text, nullable=False),
    Column("architecture", Text, nullable=False),
    Column("variant", Text, nullable=False),
    Column("version", Text, nullable=False),
    Column("engine", JSON, nullable=False),  # {kind, version, store, problem}
    Column("slots", JSON, nullable=False),  # {cpu, mem, gpu}: what sessions may use
    Column("disk", _MAYBE_JSON),  # {free, total} of the engine's data root, in bytes
    Column("address", Text, nullable=False),
    Column("incarnation", Text, nullable=False),
    Column("call_token_encrypted", Text, nullable=False),
    Column("credential_sha256", Text, nullable=False, unique=True),
    Column("inventory_version", Text, nullable=False),
    Column("reports_begun", Integer, nullable=False),  # of this incarnation
    Column("heard_at", Double, nullable=False),
    Column("created_at", Double, nullable=False),
    _one_of("status", AgentStatus),
)

agent_images = Table(
    "agent_images",
    metadata,
    Column("agent_id", ForeignKey("agents.id", ondelete="CASCADE"), primary_key=True),
    Column("reference", Text, primary_key=True),  # host/name:tag, or host/name@digest untagged
    Column("image_id", Text, nullable=False),
    Column("root_digest", Text),  # none for an image that came without one
    Column("size", BigInteger, nullable=False),
    Index("ix_agent_images_reference", "reference"),
)

images = Table(
    "images",
    metadata,
    Column("reference", Text, primary_key=True),
    Column("registry", Text, nullable=False, index=True),
    Column("repository", Text, nullable=False),  # host/name
    Column("root_digest", Text, nullable=False),
    Column("size", BigInteger, nullable=False),  # compressed bytes of the largest platform asked
    Column(
        "platforms", JSON, nullable=False
    ),  # [{os, architecture, variant, size}], as far as known
    Column("labels", JSON, nullable=False),
    Column("status", Text, nullable=False),
    Column("seen_at", Double),  # in its registry, last
    Column("updated_at", Double, nullable=False),  # what it means, or how it stands
    CheckConstraint("status IN ('known', 'missing', 'forgotten')", name="status"),
)

protected_images = Table(
    "protected_images",
    metadata,
    Column("reference", Text, primary_key=True),
    Column("by", Text, nullable=False),
    Column("at", Double, nullable=False),
)

image_grants = Table(
    "image_grants",
    metadata,
    # images below a path (host, or host/name) that stands here are for these subjects alone
    Column("path", Text, primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("subject", Text, primary_key=True),  # a user's name, or a group's
    CheckConstraint("kind IN ('user', 'group')", name="kind"),
)

user_groups = Table(
    "user_groups",
    metadata,
    Column("user_id", ForeignKey("users.id", ondelete="CASCADE"), primary_key=True),
    Column("name", Text, primary_key=True),
)

tasks = Table(
    "tasks",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("owner_id", Text, nullable=False, index=True),
    Column("status", Text, nullable=False),
    Column("cancel_requested", Boolean, nullable=False),
    Column("current", BigInteger, nullable=False),
    Column("total", BigInteger, nullable=False),
    Column("unit", Text, nullable=False),
    Column("message", Text, nullable=False),
    Column("function", Text),  # the registered function of a named task; none when ad hoc
    Column("arguments", JSON, nullable=False),
    Column("failure", _MAYBE_JSON),  # {class, message, detail} of a task that failed as a whole
    Column("detail", _MAYBE_JSON),  # what else its end has to say
    Column("category", Text),  # what it waits for and holds up; none is nothing
    Column("runner", Text),  # the manager that runs it
    Column("epoch", Integer, nullable=False),  # counts its runners
    Column("lease_until", Double),
    Column("created_at", Double, nullable=False),
    Column("started_at", Double),
    Column("ended_at", Double, index=True),
    _one_of("status", TaskStatus),
    CheckConstraint("(ended_at IS NULL) = (status IN ('pending', 'running'))", name="one_end"),
    Index("ix_tasks_category_status", "category", "status"),
)

items = Table(
    "items",
    metadata,
    Column("id", Text, primary_key=True),
    Column("task_id", ForeignKey("tasks.id", ondelete="CASCADE"), nullable=False),
    Column("agent_id", Text, nullable=False),
    Column("reference", Text, nullable=False),
    Column("root_digest", Text),
    Column("status", Text, nullable=False),
    Column("phase", Text, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("failure", _MAYBE_JSON),
    Column("bytes_done", BigInteger, nullable=False),
    Column("bytes_total", BigInteger, nullable=False),
    Column("eta_seconds", Double),
    Column("kept_by", JSON, nullable=False),
    Column("next_try_at", Double),
    UniqueConstraint("task_id", "agent_id", "reference"),
    _one_of("status", ItemStatus),
)

preparations = Table(
    "preparations",
    metadata,
    Column("item_id", ForeignKey("items.id", ondelete="CASCADE"), primary_key=True),
    Column("task_id", ForeignKey("tasks.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("agent_id", Text, nullable=False),
    Column("kind", Text, nullable=False),
    # `domain.gate.ImageKeys`
    Column("reference", Text, nullable=False),
    Column("root_digests", JSON, nullable=False),
    Column("image_id", Text),
    Column("begun_at", Double, nullable=False),
    UniqueConstraint("agent_id", "reference"),
    _one_of("kind", PreparationKind),
)

attempts = Table(
    "attempts",
    metadata,
    Column("id", Text, primary_key=True),
    # whom it serves: one of these two
    Column("item_id", ForeignKey("items.id", ondelete="CASCADE"), index=True),
    Column("kernel_id", ForeignKey("kernels.id", ondelete="CASCADE"), index=True),
    Column("agent_id", Text, nullable=False),
    Column("registry", Text, nullable=False),
    Column("reference", Text, nullable=False),
    Column("root_digest", Text, nullable=False),
    Column("pinned", Text, nullable=False),  # host/name@digest: what one pull of an agent fetches
    Column("look_only", Boolean, nullable=False),  # never pulls, so it takes no place
    Column("status", Text, nullable=False),
    Column("incarnation", Text),  # the agent's, when it accepted
    Column("accepted_begun", Integer),  # reports the agent had begun when it accepted
    Column("sends", Integer, nullable=False),
    Column("evidence", _MAYBE_JSON),
    Column("failure", _MAYBE_JSON),
    Column("created_at", Double, nullable=False),
    Column("started_at", Double),  # the engine was asked
    Column("ended_at", Double),
    _one_of("status", AttemptStatus),
    CheckConstraint("(ended_at IS NULL) = (status IN ('sent', 'pulling'))", name="one_end"),
    Index("ix_attempts_status_agent_id", "status", "agent_id"),
)

resolved_images = Table(
    "resolved_images",
    metadata,
    Column("root_digest", Text, primary_key=True),
    Column("document", JSON, nullable=False),  # `registry.images.ResolvedImage`
    Column("resolved_at", Double, nullable=False),
)

sessions = Table(
    "sessions",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("owner_id", Text, nullable=False),
    Column("scaling_group", Text),  # none: any that its owner may use
    Column("created_at", Double, nullable=False),  # its age in the queue, whatever happens
    Column("blocked_since", Double),  # first in its owner's line, and without room since
    Column("held_since", Double),  # first held back for the preparation of an image
    Column("ended_at", Double, index=True),
    Index("ix_sessions_owner_id_ended_at", "owner_id", "ended_at"),
)

kernels = Table(
    "kernels",
    metadata,
    Column("id", Text, primary_key=True),
    Column("session_id", ForeignKey("sessions.id", ondelete="CASCADE"), nullable=False),
    Column("position", Integer, nullable=False),  # in its session; the main one is 0
    Column("owner_id", Text, nullable=False),
    Column("reference", Text, nullable=False),
    Column("registry", Text, nullable=False),
    Column("root_digest", Text),  # none until the reference is resolved
    Column("cpu", BigInteger, nullable=False),  # thousandths of a processor
    Column("mem", BigInteger, nullable=False),
    Column("gpu", BigInteger, nullable=False),
    Column("command", JSON, nullable=False),
    Column("environment", JSON, nullable=False),
    Column("status", Text, nullable=False),
    Column("status_info", Text, nullable=False),  # `domain.sessions.Reason`, or empty
    Column("status_data", _MAYBE_JSON),
    Column("agent_id", Text),
    Column("attempt_id", Text),  # the current one
    Column("image_id", Text),  # verified on its agent
    Column("container_id", Text),
    Column("attempts", Integer, nullable=False),  # to bring its image, in all
    Column("tries", Integer, nullable=False),  # failed in a row on `tried_on`
    Column("tried_on", Text),
    Column("agents_failed", Integer, nullable=False),
    Column("failing_since", Double),
    Column("next_try_at", Double),
    Column("calls", Integer, nullable=False),  # of its agent, in this state
    Column("accepted_begun", Integer),  # reports its agent had begun when its container was made
    Column("ends_as", Text),  # what a TERMINATING one ends as
    Column("exit_code", Integer),
    Column("failure", _MAYBE_JSON),
    Column("changed_at", Double, nullable=False),  # in this state since
    Column("started_at", Double),
    Column("ended_at", Double),
    UniqueConstraint("session_id", "position"),
    _one_of("status", KernelStatus),
    CheckConstraint(
        "(ended_at IS NULL) = (status NOT IN ('TERMINATED', 'CANCELLED', 'ERROR'))", name="one_end"
    ),
    Index("ix_kernels_status_agent_id", "status", "agent_id"),
    Index("ix_kernels_agent_id_status", "agent_id", "status"),
    Index("ix_kernels_owner_id_status", "owner_id", "status"),
)

kernel_logs = Table(
    "kernel_logs",
    metadata,
    Column("kernel_id", ForeignKey("kernels.id", ondelete="CASCADE"), primary_key=True),
    Column("data", LargeBinary, nullable=False),
    Column("truncated", Boolean, nullable=False),
)

avoided_images = Table(
    "avoided_images",
    metadata,
    Column("agent_id", ForeignKey("agents.id", ondelete="CASCADE"), primary_key=True),
    Column("root_digest", Text, primary_key=True),
    Column("until", Double, nullable=False),
    Column("failure", JSON, nullable=False),  # {class, message, detail}
)

leftovers = Table(
    "leftovers",
    metadata,
    # containers of ours that no current kernel claims, to be removed
    Column("agent_id", ForeignKey("agents.id", ondelete="CASCADE"), primary_key=True),
    Column("kernel_id", Text, primary_key=True),
    Column("container_id", Text, nullable=False),
    Column("problem", Text, nullable=False),  # the engine's text when it could not be removed
    Column("tries", Integer, nullable=False),
    Column("next_try_at", Double, nullable=False),
    Column("found_at", Double, nullable=False),
)

audit = Table(
    "audit",
    metadata,
    # rows are only ever added: triggers refuse anything else
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("at", Double, nullable=False),
    Column("actor_id", Text, nullable=False),
    Column("actor", Text, nullable=False),  # the user's name at that time
    Column("action", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("detail", JSON, nullable=False),
    Index("ix_audit_target", "target"),
    Index("ix_audit_actor", "actor"),
)

transitions = Table(
    "transitions",
    metadata,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("entity", Text, nullable=False),  # the name of its machine
    Column("entity_id", Text, nullable=False),
    Column("from", Text),  # none for the first
    Column("to", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("by", Text, nullable=False),
    Column("at", Double, nullable=False),
    Index("ix_transitions_entity_entity_id", "entity", "entity_id"),
)
