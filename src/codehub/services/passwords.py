"""Hash and verify passwords with argon2id, in a small thread pool.

One hash takes tens of milliseconds and 64 MiB on purpose. On the event loop it would stall every request; in
unlimited threads a burst of sign-ins would exhaust the machine. So it runs in a small pool of its own, and
further calls wait while it is full.
"""

import asyncio
import os
import secrets
from concurrent.futures import ThreadPoolExecutor

import argon2

MIN_LENGTH = 8
MAX_LENGTH = 1024
"""Hashing is linear in the length: without a limit, long passwords could be used for denial of service."""

GENERATED_BYTES = 15


class Passwords:
    """Hashes and verifies. One per process; ``close()`` ends the threads."""

    def __init__(self, *, threads: int | None = None, hasher: argon2.PasswordHasher | None = None) -> None:
        self._hasher = hasher or argon2.PasswordHasher()
        self._pool = ThreadPoolExecutor(
            max_workers=threads or min(4, os.cpu_count() or 1), thread_name_prefix="password"
        )
        # A sign-in with an unknown name is verified against this hash. Computed before the first one can arrive.
        self._dummy_hash = self._pool.submit(self._hasher.hash, secrets.token_urlsafe(16))

    async def hash(self, password: str) -> str:
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._hasher.hash, password)

    async def verify(self, password_hash: str | None, password: str) -> bool:
        """Return whether the password matches.

        ``None`` (no such user) takes as long as any other and is False.
        """
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, self._verify, password_hash, password)

    def needs_rehash(self, password_hash: str) -> bool:
        """Return whether the hash has weaker parameters than today's.

        Then hash again at the next sign-in.
        """
        return self._hasher.check_needs_rehash(password_hash)

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _verify(self, password_hash: str | None, password: str) -> bool:
        try:
            self._hasher.verify(password_hash or self._dummy_hash.result(), password)
        except (argon2.exceptions.VerificationError, argon2.exceptions.InvalidHashError):
            return False
        return password_hash is not None


def why_unfit(password: str) -> str | None:
    """Return why this cannot be a password; None if it can."""
    if len(password) < MIN_LENGTH:
        return f"A password needs at least {MIN_LENGTH} characters."
    if len(password) > MAX_LENGTH:
        return f"A password has at most {MAX_LENGTH} characters."
    return None


def generate() -> str:
    """Generate a password: 120 bits, in characters that can be copied from a terminal."""
    return secrets.token_urlsafe(GENERATED_BYTES)
