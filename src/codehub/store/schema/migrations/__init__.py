"""Alembic's side of the store. ``codehub.store.schema.migrate`` runs it; the files travel in the wheel."""
