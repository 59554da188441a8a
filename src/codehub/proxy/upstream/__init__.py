"""The way to an upstream: destinations, connection pool, exchange, tunnel and its relay."""
