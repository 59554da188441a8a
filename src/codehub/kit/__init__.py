"""Helpers without knowledge of CodeHub: ids, clocks, tasks, caches, logging."""
