"""Sending statements: sessions, the pool, fencing, row locks."""
