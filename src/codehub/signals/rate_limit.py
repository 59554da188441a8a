"""Limit how often something happens: ``limit`` times in any ``window_seconds``.

Used for sign-in: 5 failures a minute for an account, 20 for an address. Call ``hit`` *before* the password is
checked, so that a hundred concurrent attempts cannot all pass before the first one has failed; call ``reset``
(the account) or ``forgive`` (the address) when it was right.

A hit over the limit is refused and not counted: an attacker cannot keep a person out for longer than the
window by going on. Counted in Redis, for all replicas together; while Redis is away each process counts for
itself, which allows more attempts but never unlimited ones.
"""

import asyncio
import hashlib
from collections import OrderedDict, deque
from typing import Protocol
from uuid import uuid4

from codehub.signals.connection import RedisLink, RedisUnavailable
from codehub.signals.outage import Outage

MAX_LOCAL_KEYS = 10_000

# KEYS hits; ARGV limit, window_ms, member ('': do not count) → ms to wait, 0: allowed
_HIT = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local limit = tonumber(ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[2])
local count = redis.call('ZCARD', KEYS[1])
if count >= limit then
  local oldest = redis.call('ZRANGE', KEYS[1], count - limit, count - limit, 'WITHSCORES')
  return math.max(1, oldest[2] + ARGV[2] - now)
end
if ARGV[3] ~= '' then
  redis.call('ZADD', KEYS[1], now, ARGV[3])
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0
"""


class RateLimit(Protocol):
    """Counts hits per key in a sliding window."""

    async def hit(self, key: str, *, limit: int, window_seconds: float) -> float | None:
        """Count one hit. None: allowed; otherwise refused, seconds until a retry."""

    async def peek(self, key: str, *, limit: int, window_seconds: float) -> float | None:
        """Return what ``hit`` would return, without counting."""

    async def forgive(self, key: str) -> None:
        """Remove the latest hit."""

    async def reset(self, key: str) -> None:
        """Remove all hits."""


class SharedRateLimit:
    """Counts in Redis for all replicas; in this process while Redis is away.

    Never raises because Redis is away.
    """

    def __init__(self, link: RedisLink) -> None:
        self._link = link
        self._outage = Outage("rate limit")
        self._local = LocalRateLimit()

    async def hit(self, key: str, *, limit: int, window_seconds: float) -> float | None:
        try:
            return await self._run(key, limit, window_seconds, member=uuid4().hex)
        except RedisUnavailable:
            return await self._local.hit(key, limit=limit, window_seconds=window_seconds)

    async def peek(self, key: str, *, limit: int, window_seconds: float) -> float | None:
        try:
            return await self._run(key, limit, window_seconds, member="")
        except RedisUnavailable:
            return await self._local.peek(key, limit=limit, window_seconds=window_seconds)

    async def forgive(self, key: str) -> None:
        await self._local.forgive(key)
        try:
            async with self._link.bounded(self._outage) as client:
                await client.zpopmax(_redis_key(key))
        except RedisUnavailable:
            pass  # the hit expires with the window

    async def reset(self, key: str) -> None:
        await self._local.reset(key)
        try:
            async with self._link.bounded(self._outage) as client:
                await client.delete(_redis_key(key))
        except RedisUnavailable:
            pass

    async def _run(self, key: str, limit: int, window_seconds: float, *, member: str) -> float | None:
        async with self._link.bounded(self._outage) as client:
            arguments = [str(limit), str(round(window_seconds * 1000)), member]
            # Sign-ins are rare and the script is short: EVAL needs no script cache.
            wait_ms = int(await client.eval(_HIT, 1, _redis_key(key), *arguments))
        return wait_ms / 1000 if wait_ms else None


class LocalRateLimit:
    """Counts within one process. Bounded: the key longest unused is evicted."""

    def __init__(self, *, max_keys: int = MAX_LOCAL_KEYS) -> None:
        self._max_keys = max_keys
        self._hits: OrderedDict[str, deque[float]] = OrderedDict()

    async def hit(self, key: str, *, limit: int, window_seconds: float) -> float | None:
        wait = await self.peek(key, limit=limit, window_seconds=window_seconds)
        if wait is None:
            self._hits.setdefault(key, deque()).append(asyncio.get_running_loop().time())
            self._hits.move_to_end(key)
            if len(self._hits) > self._max_keys:
                self._hits.popitem(last=False)
        return wait

    async def peek(self, key: str, *, limit: int, window_seconds: float) -> float | None:
        hits = self._hits.get(key)
        if hits is None:
            return None
        now = asyncio.get_running_loop().time()
        while hits and hits[0] <= now - window_seconds:
            hits.popleft()
        if len(hits) < limit:
            return None
        return max(0.001, hits[len(hits) - limit] + window_seconds - now)

    async def forgive(self, key: str) -> None:
        hits = self._hits.get(key)
        if hits:
            hits.pop()

    async def reset(self, key: str) -> None:
        self._hits.pop(key, None)


def _redis_key(key: str) -> str:
    """Hash the key: no names or addresses in Redis, and a fixed length."""
    return f"codehub:rate:{hashlib.blake2b(key.encode(), digest_size=16).hexdigest()}"
