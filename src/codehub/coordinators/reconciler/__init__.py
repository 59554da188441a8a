"""The Reconciler: one tick, its batch, the worker and its actions."""
