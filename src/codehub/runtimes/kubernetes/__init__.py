"""Kubernetes runtime: workspaces as pods of one namespace.

Nothing is imported here: the settings read ``catalogue`` in every process, and only a process that uses this runtime
shall load an HTTP client.
"""
