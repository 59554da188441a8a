"""Use cases, one transaction each. ``workspaces`` is the only writer of intent."""
