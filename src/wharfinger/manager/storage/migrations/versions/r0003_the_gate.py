"""The gate, the catalogue, the audit log."""

from collections.abc import Mapping
from typing import Final

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_ADDED_ONLY: Final[Mapping[str, tuple[str, ...]]] = {
    "sqlite": (
        """
        CREATE TRIGGER audit_never_changes BEFORE UPDATE ON audit
        BEGIN SELECT RAISE(ABORT, 'the audit log is only ever added to'); END
        """,
        """
        CREATE TRIGGER audit_never_shrinks BEFORE DELETE ON audit
        BEGIN SELECT RAISE(ABORT, 'the audit log is only ever added to'); END
        """,
    ),
    "postgresql": (
        """
        CREATE FUNCTION audit_added_only() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE EXCEPTION 'the audit log is only ever added to'; END $$
        """,
        """
        CREATE TRIGGER audit_never_changes BEFORE UPDATE OR DELETE ON audit
        FOR EACH ROW EXECUTE FUNCTION audit_added_only()
        """,
        """
        CREATE TRIGGER audit_never_emptied BEFORE TRUNCATE ON audit
        FOR EACH STATEMENT EXECUTE FUNCTION audit_added_only()
        """,
    ),
}


def upgrade() -> None:
    """The gate, the catalogue, the audit log."""
    op.create_table(
        "audit",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("actor_id", sa.Text(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("detail", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit")),
    )
    with op.batch_alter_table("audit", schema=None) as batch_op:
        batch_op.create_index("ix_audit_actor", ["actor"], unique=False)
        batch_op.create_index("ix_audit_target", ["target"], unique=False)

    op.create_table(
        "image_grants",
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.CheckConstraint("kind IN ('user', 'group')", name=op.f("ck_image_grants_kind")),
        sa.PrimaryKeyConstraint("path", "kind", "subject", name=op.f("pk_image_grants")),
    )
    op.create_table(
        "protected_images",
        sa.Column("reference", sa.Text(), nullable=False),
        sa.Column("by", sa.Text(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("reference", name=op.f("pk_protected_images")),
    )
    op.create_table(
        "user_groups",
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["user_id"], ["users.id"], name=op.f("fk_user_groups_user_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("user_id", "name", name=op.f("pk_user_groups")),
    )
    op.create_table(
        "preparations",
        sa.Column("item_id", sa.Text(), nullable=False),
        sa.Column("task_id", sa.Text(), nullable=False),
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("reference", sa.Text(), nullable=False),
        sa.Column("root_digests", sa.JSON(), nullable=False),
        sa.Column("image_id", sa.Text(), nullable=True),
        sa.Column("begun_at", sa.Double(), nullable=False),
        sa.CheckConstraint("kind IN ('preload', 'unload')", name=op.f("ck_preparations_kind")),
        sa.ForeignKeyConstraint(
            ["item_id"], ["items.id"], name=op.f("fk_preparations_item_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["task_id"], ["tasks.id"], name=op.f("fk_preparations_task_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("item_id", name=op.f("pk_preparations")),
        sa.UniqueConstraint(
            "agent_id", "reference", name=op.f("uq_preparations_agent_id_reference")
        ),
    )
    with op.batch_alter_table("preparations", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_preparations_task_id"), ["task_id"], unique=False)

    with op.batch_alter_table("agents", schema=None) as batch_op:
        batch_op.add_column(sa.Column("disk", sa.JSON(none_as_null=True), nullable=True))

    with op.batch_alter_table("images", schema=None) as batch_op:
        for column, default in (
            (sa.Column("registry", sa.Text(), nullable=False), ""),
            (sa.Column("repository", sa.Text(), nullable=False), ""),
            (sa.Column("platforms", sa.JSON(), nullable=False), "[]"),
            (sa.Column("labels", sa.JSON(), nullable=False), "{}"),
            (sa.Column("status", sa.Text(), nullable=False), "known"),
        ):
            column.server_default = sa.DefaultClause(default)
            batch_op.add_column(column)
        batch_op.add_column(sa.Column("seen_at", sa.Double(), nullable=True))
        batch_op.create_index(batch_op.f("ix_images_registry"), ["registry"], unique=False)

    _name_repositories()
    with op.batch_alter_table("images", schema=None) as batch_op:
        for name in ("registry", "repository", "platforms", "labels", "status"):
            batch_op.alter_column(name, server_default=None)
        batch_op.create_check_constraint("status", "status IN ('known', 'missing', 'forgotten')")

    with op.batch_alter_table("items", schema=None) as batch_op:
        batch_op.add_column(sa.Column("eta_seconds", sa.Double(), nullable=True))

    with op.batch_alter_table("tasks", schema=None) as batch_op:
        batch_op.add_column(sa.Column("detail", sa.JSON(none_as_null=True), nullable=True))
        batch_op.add_column(sa.Column("category", sa.Text(), nullable=True))
        batch_op.create_index("ix_tasks_category_status", ["category", "status"], unique=False)

    with op.batch_alter_table("sessions", schema=None) as batch_op:
        batch_op.add_column(sa.Column("held_since", sa.Double(), nullable=True))

    _gate_what_is_under_way()
    conn = op.get_bind()
    for statement in _ADDED_ONLY[conn.dialect.name]:
        op.execute(statement)


def _name_repositories() -> None:
    """Read registry and repository from each reference (`host/name[:tag][@digest]`)."""
    images = sa.table(
        "images", sa.column("reference"), sa.column("registry"), sa.column("repository")
    )
    conn = op.get_bind()
    for reference in conn.execute(sa.select(images.c.reference)).scalars().all():
        path, _, last = reference.partition("@")[0].rpartition("/")
        conn.execute(
            sa.update(images)
            .where(images.c.reference == reference)
            .values(
                registry=reference.partition("/")[0],
                repository=f"{path}/{last.partition(':')[0]}",
            )
        )


def _gate_what_is_under_way() -> None:
    """Preloads count as downloads, and close their images where they run; unloads look again."""
    conn = op.get_bind()
    conn.execute(sa.text("UPDATE tasks SET category = 'download' WHERE function = 'preload'"))
    running = conn.execute(
        sa.text(
            "SELECT items.id, task_id, agent_id, reference, root_digest, function"
            " FROM items JOIN tasks ON tasks.id = items.task_id"
            " WHERE items.status = 'running' ORDER BY items.id"
        )
    ).all()
    preparations = sa.table(
        "preparations",
        *(sa.column(name) for name in ("item_id", "task_id", "agent_id", "kind", "reference")),
        sa.column("root_digests", sa.JSON()),
        sa.column("begun_at"),
    )
    closed: set[tuple[str, str]] = set()
    for item in running:
        if item.function == "unload":
            again = sa.text("UPDATE items SET status = 'queued' WHERE id = :id")
            conn.execute(again, {"id": item.id})
        elif (item.agent_id, item.reference) not in closed:
            closed.add((item.agent_id, item.reference))
            conn.execute(
                sa.insert(preparations).values(
                    item_id=item.id,
                    task_id=item.task_id,
                    agent_id=item.agent_id,
                    kind="preload",
                    reference=item.reference,
                    root_digests=[item.root_digest] if item.root_digest else [],
                    begun_at=0.0,
                )
            )
