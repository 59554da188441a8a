"""HTTP/1.1 heads and bodies: grammar, framing, requests, responses. Knows nothing of CodeHub."""
