"""Checks every dependency and says what to do."""
