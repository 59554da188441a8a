"""Benchmarks of CodeHub beside its peers, in one run: ``make bench``, ``docs/understand/benchmarks.md``."""
