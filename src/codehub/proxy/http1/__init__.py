"""HTTP/1.1 grammar, framing, requests and responses. Knows nothing of CodeHub."""
