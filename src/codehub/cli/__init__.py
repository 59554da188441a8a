"""The ``codehub`` command."""
