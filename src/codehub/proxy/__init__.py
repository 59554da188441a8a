"""Reverse proxy: parse request heads, decide access from caches, relay bytes."""
