"""The pure rules of CodeHub: what follows from what was seen and what is wanted.

Everything here is a function of its arguments: no I/O, no clock (time comes in as ``now``), no
framework, nothing but the standard library. Coordinators and services load, ask here, and act.
"""
