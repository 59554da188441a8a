"""Queries on workspaces: reads, intents, claims, observations."""
