"""Alembic's side of the store. ``codehub.store.migrate`` runs it; the files travel in the wheel."""
