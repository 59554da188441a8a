"""Alembic's migrations, run by ``codehub.store.schema.migrate``.

The files are part of the wheel.
"""
