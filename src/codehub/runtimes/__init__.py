"""Containers and volumes, behind one protocol. Concrete runtimes are named only in ``server/wiring.py``."""
