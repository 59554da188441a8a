"""Routes: one router per resource."""
