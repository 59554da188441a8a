"""Event streams: SSE, rendering, activity, progress, and revocation."""
