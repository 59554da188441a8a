"""Settings of CodeHub, read from the environment once."""
