"""Log the begin and end of a Redis outage, and count every failure in it.

While Redis is away every publish, renewal and read fails, many times a second. People need one line when it
begins and one when it is over; the counter has the rest.
"""

import asyncio

import structlog
from prometheus_client import Counter

log = structlog.get_logger(__name__)

FAILURES = Counter(
    "codehub_redis_failures_total", "Calls to Redis that failed, by what they were for", ["use"]
)


class Outage:
    """Whether one use of Redis (hints, live events, …) works at the moment."""

    def __init__(self, use: str, *, hold_seconds: float = 1.0) -> None:
        self.use = use
        self.failures = 0
        self._failures_before = 0
        self._hold_seconds = hold_seconds
        self._hold_until = 0.0
        self._ongoing = False
        self._counter = FAILURES.labels(use=use)

    @property
    def ongoing(self) -> bool:
        return self._ongoing

    @property
    def holding(self) -> bool:
        """Whether to fail at once, because a call timed out less than a second ago.

        A refused connection costs nothing and is tried every time; a host that drops packets costs each
        caller the whole timeout.
        """
        return asyncio.get_running_loop().time() < self._hold_until

    def failed(self, error: BaseException) -> None:
        self.failures += 1
        self._counter.inc()
        if isinstance(error, TimeoutError):
            self._hold_until = asyncio.get_running_loop().time() + self._hold_seconds
        if not self._ongoing:
            self._ongoing = True
            self._failures_before = self.failures - 1
            log.warning("redis is away", use=self.use, error=str(error), error_type=type(error).__name__)

    def recovered(self) -> None:
        self._hold_until = 0.0
        if self._ongoing:
            self._ongoing = False
            log.info("redis is back", use=self.use, failures=self.failures - self._failures_before)
