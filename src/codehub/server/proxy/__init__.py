"""The proxy's directory, activity, metrics and processes."""
