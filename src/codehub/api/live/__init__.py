"""Event streams: SSE, rendering, activity, progress, revocation."""
