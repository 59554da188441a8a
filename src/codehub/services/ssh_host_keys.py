"""Derive the SSH host keys of each workspace and of the gateway from the installation's secret.

Nothing is stored: a workspace has the same key on every replica, and after sleep, archive and restore, so that nobody's
``known_hosts`` complains. The keys of two workspaces tell nothing of each other or of the secret (HKDF, RFC 5869).
"""

import hashlib
import hmac
from uuid import UUID

_SALT = b"codehub ssh host key 1"


def host_key_seed(secret: bytes, workspace_id: UUID) -> bytes:
    """The 32 bytes an Ed25519 key is made of."""
    extracted = hmac.digest(_SALT, secret, hashlib.sha256)
    return hmac.digest(extracted, workspace_id.bytes + b"\x01", hashlib.sha256)


def gateway_key_seed(secret: bytes) -> bytes:
    """The 32 bytes of the gateway's own Ed25519 key. No workspace has this id: theirs are 16 bytes long."""
    extracted = hmac.digest(_SALT, secret, hashlib.sha256)
    return hmac.digest(extracted, b"gateway\x01", hashlib.sha256)
