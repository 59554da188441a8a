"""HTTP API: one router per resource, SSE, problem+json."""
