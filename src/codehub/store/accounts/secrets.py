"""Secrets are looked up by their hash and kept no other way.

Session and token secrets are long and random, so a plain SHA-256 is enough: there is nothing to guess.
Passwords are another matter and never come here.
"""

import hashlib


def hash_secret(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
