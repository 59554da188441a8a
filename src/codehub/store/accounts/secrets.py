"""Hash session and token secrets; only the hash is stored and looked up.

These secrets are long and random, so a plain SHA-256 is enough: they cannot be guessed. Passwords are hashed
elsewhere (``services/passwords``).
"""

import hashlib


def hash_secret(secret: str) -> str:
    """Return the SHA-256 of a secret, in hex."""
    return hashlib.sha256(secret.encode()).hexdigest()
