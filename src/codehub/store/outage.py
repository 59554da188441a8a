"""A database that is away: one line a minute in the log, and a count of everything that failed in it.

While PostgreSQL is away, or ends our sessions, every coordinator, request and stream of a process fails, many
times a second. People need to read that once, and again if it lasts; the counter carries the rest.
"""

import asyncio
from typing import Any

import structlog
from prometheus_client import Counter

from codehub.kit.clock import monotonic
from codehub.store.errors import DRIVER_ERRORS

log = structlog.get_logger(__name__)

LINE_SECONDS = 60.0

FAILURES = Counter(
    "codehub_database_failures_total", "Failures for want of the database, by who met them", ["use"]
)


class DatabaseOutage:
    """One for each process (``DATABASE``): all of it stands on the same database."""

    def __init__(self, *, line_seconds: float = LINE_SECONDS) -> None:
        self._line_seconds = line_seconds
        self._said_at = float("-inf")
        self._unsaid = 0

    def failed(self, use: str, error: BaseException) -> None:
        FAILURES.labels(use).inc()
        now = monotonic()
        if now - self._said_at < self._line_seconds:
            self._unsaid += 1
            return
        more, self._said_at, self._unsaid = self._unsaid, now, 0
        log.warning(
            "the database does not answer",
            use=use,
            error=str(error),
            error_type=type(error).__name__,
            failures_since_last_line=more,
        )


DATABASE = DatabaseOutage()


def on_loop_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """For ``loop.set_exception_handler``: what the driver throws where nobody can catch it.

    A session that is ended in the middle of a message leaves the driver's protocol in a state it complains
    of, from a callback of the loop's. The connection is thrown away in any case: nothing to do but count.
    """
    error = context.get("exception")
    if isinstance(error, DRIVER_ERRORS):
        DATABASE.failed("driver", error)
    else:
        loop.default_exception_handler(context)
