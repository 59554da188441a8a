"""``codehub doctor``: check every dependency and say what to do."""
