"""What Alembic executes for every command: run the revisions on the connection we were handed.

The connection comes from ``codehub.store.schema.migrate``, already inside a transaction that holds the
migration lock. A process that dies here leaves the database as it was: DDL is transactional.
"""

from alembic import context

from codehub.store.schema.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
with context.begin_transaction():
    context.run_migrations()
