"""Alembic's migrations, run by ``codehub.store.migrate``.

The files are part of the wheel.
"""
