"""Run the migrations on the connection given by ``codehub.store.migrate``.

Alembic executes this for every command. The connection is already inside a transaction that holds the
migration lock. A process that dies here leaves the database as it was: DDL is transactional.
"""

from alembic import context

from codehub.store.schema.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
with context.begin_transaction():
    context.run_migrations()
