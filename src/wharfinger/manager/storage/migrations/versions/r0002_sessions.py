"""Sessions."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Sessions."""
    op.create_table(
        "cluster",
        sa.Column("id", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_cluster")),
    )
    op.create_table(
        "resolved_images",
        sa.Column("root_digest", sa.Text(), nullable=False),
        sa.Column("document", sa.JSON(), nullable=False),
        sa.Column("resolved_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("root_digest", name=op.f("pk_resolved_images")),
    )
    op.create_table(
        "sessions",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("owner_id", sa.Text(), nullable=False),
        sa.Column("scaling_group", sa.Text(), nullable=True),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("blocked_since", sa.Double(), nullable=True),
        sa.Column("ended_at", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sessions")),
    )
    op.create_index(op.f("ix_sessions_ended_at"), "sessions", ["ended_at"], unique=False)
    op.create_index(
        "ix_sessions_owner_id_ended_at", "sessions", ["owner_id", "ended_at"], unique=False
    )

    op.create_table(
        "avoided_images",
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("root_digest", sa.Text(), nullable=False),
        sa.Column("until", sa.Double(), nullable=False),
        sa.Column("failure", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(
            ["agent_id"], ["agents.id"], name=op.f("fk_avoided_images_agent_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("agent_id", "root_digest", name=op.f("pk_avoided_images")),
    )
    op.create_table(
        "kernels",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("session_id", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("owner_id", sa.Text(), nullable=False),
        sa.Column("reference", sa.Text(), nullable=False),
        sa.Column("registry", sa.Text(), nullable=False),
        sa.Column("root_digest", sa.Text(), nullable=True),
        sa.Column("cpu", sa.BigInteger(), nullable=False),
        sa.Column("mem", sa.BigInteger(), nullable=False),
        sa.Column("gpu", sa.BigInteger(), nullable=False),
        sa.Column("command", sa.JSON(), nullable=False),
        sa.Column("environment", sa.JSON(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("status_info", sa.Text(), nullable=False),
        sa.Column("status_data", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("agent_id", sa.Text(), nullable=True),
        sa.Column("attempt_id", sa.Text(), nullable=True),
        sa.Column("image_id", sa.Text(), nullable=True),
        sa.Column("container_id", sa.Text(), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("tried_on", sa.Text(), nullable=True),
        sa.Column("agents_failed", sa.Integer(), nullable=False),
        sa.Column("failing_since", sa.Double(), nullable=True),
        sa.Column("next_try_at", sa.Double(), nullable=True),
        sa.Column("calls", sa.Integer(), nullable=False),
        sa.Column("accepted_begun", sa.Integer(), nullable=True),
        sa.Column("ends_as", sa.Text(), nullable=True),
        sa.Column("exit_code", sa.Integer(), nullable=True),
        sa.Column("failure", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("changed_at", sa.Double(), nullable=False),
        sa.Column("started_at", sa.Double(), nullable=True),
        sa.Column("ended_at", sa.Double(), nullable=True),
        sa.CheckConstraint(
            "(ended_at IS NULL) = (status NOT IN ('TERMINATED', 'CANCELLED', 'ERROR'))",
            name=op.f("ck_kernels_one_end"),
        ),
        sa.CheckConstraint(
            "status IN ('PENDING', 'SCHEDULED', 'PREPARING', 'PULLING', 'PREPARED', 'CREATING', 'RUNNING', 'TERMINATING', 'TERMINATED', 'CANCELLED', 'ERROR')",
            name=op.f("ck_kernels_status"),
        ),
        sa.ForeignKeyConstraint(
            ["session_id"], ["sessions.id"], name=op.f("fk_kernels_session_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_kernels")),
        sa.UniqueConstraint("session_id", "position", name=op.f("uq_kernels_session_id_position")),
    )
    op.create_index("ix_kernels_agent_id_status", "kernels", ["agent_id", "status"], unique=False)
    op.create_index("ix_kernels_owner_id_status", "kernels", ["owner_id", "status"], unique=False)
    op.create_index("ix_kernels_status_agent_id", "kernels", ["status", "agent_id"], unique=False)

    op.create_table(
        "leftovers",
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("kernel_id", sa.Text(), nullable=False),
        sa.Column("container_id", sa.Text(), nullable=False),
        sa.Column("problem", sa.Text(), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("next_try_at", sa.Double(), nullable=False),
        sa.Column("found_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(
            ["agent_id"], ["agents.id"], name=op.f("fk_leftovers_agent_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("agent_id", "kernel_id", name=op.f("pk_leftovers")),
    )
    op.create_table(
        "kernel_logs",
        sa.Column("kernel_id", sa.Text(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.Column("truncated", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(
            ["kernel_id"], ["kernels.id"], name=op.f("fk_kernel_logs_kernel_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("kernel_id", name=op.f("pk_kernel_logs")),
    )
    with op.batch_alter_table("attempts", schema=None) as batch_op:
        batch_op.add_column(sa.Column("kernel_id", sa.Text(), nullable=True))
        batch_op.add_column(sa.Column("pinned", sa.Text(), nullable=False, server_default=""))
        batch_op.add_column(
            sa.Column("look_only", sa.Boolean(), nullable=False, server_default=sa.false())
        )
        batch_op.create_index(batch_op.f("ix_attempts_kernel_id"), ["kernel_id"], unique=False)
        batch_op.create_foreign_key(
            batch_op.f("fk_attempts_kernel_id"),
            "kernels",
            ["kernel_id"],
            ["id"],
            ondelete="CASCADE",
        )
    # of old rows it only has to tell pulls apart
    op.execute("UPDATE attempts SET pinned = reference || '@' || root_digest")
    with op.batch_alter_table("attempts", schema=None) as batch_op:
        batch_op.alter_column("pinned", server_default=None)
        batch_op.alter_column("look_only", server_default=None)

    with op.batch_alter_table("users", schema=None) as batch_op:
        batch_op.add_column(sa.Column("max_sessions", sa.Integer(), nullable=True))
        batch_op.add_column(sa.Column("max_cpu", sa.BigInteger(), nullable=True))
        batch_op.add_column(sa.Column("max_mem", sa.BigInteger(), nullable=True))
        batch_op.add_column(sa.Column("max_gpu", sa.BigInteger(), nullable=True))
        batch_op.add_column(sa.Column("scaling_groups", sa.JSON(none_as_null=True), nullable=True))
