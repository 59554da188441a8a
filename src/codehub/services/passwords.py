"""Passwords: argon2id, hashed where it cannot hold up the server.

One hash takes tens of milliseconds and 64 MiB on purpose. Done on the event loop it would stall every
request; done in unlimited threads a burst of sign-ins would eat the machine. So it runs in a small pool of
its own, and those who come when it is full wait their turn.
"""

import asyncio
import os
import secrets
from concurrent.futures import ThreadPoolExecutor

import argon2

MIN_LENGTH = 8
MAX_LENGTH = 1024
"""Hashing is linear in the length: a limit keeps it from being a lever."""

GENERATED_BYTES = 15


class Passwords:
    """Hashes and verifies. One per process; ``close()`` gives the threads back."""

    def __init__(self, *, threads: int | None = None, hasher: argon2.PasswordHasher | None = None) -> None:
        self._hasher = hasher or argon2.PasswordHasher()
        self._pool = ThreadPoolExecutor(
            max_workers=threads or min(4, os.cpu_count() or 1), thread_name_prefix="password"
        )
        # What a sign-in with an unknown name is checked against. Made before the first one can come.
        self._nobodys = self._pool.submit(self._hasher.hash, secrets.token_urlsafe(16))

    async def hash(self, password: str) -> str:
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._hasher.hash, password)

    async def verify(self, password_hash: str | None, password: str) -> bool:
        """Whether this is the password. ``None`` (no such user) takes as long as any other and is False."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, self._verify, password_hash, password)

    def needs_rehash(self, password_hash: str) -> bool:
        """Whether it was made with weaker parameters than today's: hash again at the next sign-in."""
        return self._hasher.check_needs_rehash(password_hash)

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _verify(self, password_hash: str | None, password: str) -> bool:
        try:
            self._hasher.verify(password_hash or self._nobodys.result(), password)
        except (argon2.exceptions.VerificationError, argon2.exceptions.InvalidHashError):
            return False
        return password_hash is not None


def why_unfit(password: str) -> str | None:
    """Why this cannot be a password, or None if it can."""
    if len(password) < MIN_LENGTH:
        return f"A password needs at least {MIN_LENGTH} characters."
    if len(password) > MAX_LENGTH:
        return f"A password has at most {MAX_LENGTH} characters."
    return None


def generate() -> str:
    """A password nobody chose: 120 bits, in letters that can be copied from a terminal."""
    return secrets.token_urlsafe(GENERATED_BYTES)
