"""Benchmarks of CodeHub beside its peers, both in one run. ``make bench``; read ``docs/benchmarks.md``."""
