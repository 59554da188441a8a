"""Who may pass: identity, the access policy, its caches, admission and the proxy's internal endpoints."""
