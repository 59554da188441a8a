"""What the proxy needs of the rest of CodeHub: directory, activity, metrics, its processes."""
