"""Decide what follows from observed and desired state: the pure rules of CodeHub.

Everything here is a function of its arguments: no I/O, no clock (time comes in as ``now``), no
framework, nothing but the standard library. Coordinators and services load rows, call these functions
and perform the result.
"""
