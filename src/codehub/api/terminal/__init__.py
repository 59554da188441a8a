"""Connect people to shells that ``inside`` holds in their workspaces, over a WebSocket."""
