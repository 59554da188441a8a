"""Runtimes: containers and volumes behind one protocol.

Concrete runtimes are named only in ``server/runtime_choice.py``.
"""
