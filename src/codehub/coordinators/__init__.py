"""Coordinators: five control loops, each with one leader and one connection."""
