"""Everything CodeHub can be told, read from the environment once."""
