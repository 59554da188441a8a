"""Reconciler: its tick, worker, actions, executions and circuit breakers."""
