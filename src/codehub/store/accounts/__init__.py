"""Queries on people: users, sessions, tokens, audit."""
