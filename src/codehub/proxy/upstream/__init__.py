"""Upstream side: destinations, connection pool, exchange, tunnel and its relay."""
