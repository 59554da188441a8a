"""HTTP: one router per resource, SSE, problem+json."""
