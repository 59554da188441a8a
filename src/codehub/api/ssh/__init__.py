"""Connect people to ``inside ssh`` in their workspaces, over a WebSocket or the SSH gateway."""
