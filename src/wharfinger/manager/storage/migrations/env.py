"""Alembic's entry: it runs the steps on the connection that `migrate` gives, in its transaction."""

from alembic import context

from wharfinger.manager.storage.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    compare_type=True,
    # SQLite alters a table by building it anew; the first step creates them all
    render_as_batch=context.get_head_revision() is not None,
)
with context.begin_transaction():
    context.run_migrations()
