"""Log a database outage once a minute and count every failure in it.

While PostgreSQL does not answer, or ends our sessions, every coordinator, request and stream of a process
fails, many times a second. People read one line when it begins and one a minute while it lasts; the counter
has the rest.
"""

import asyncio

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
    """Rate-limited log of database failures. One per process (``DATABASE``)."""

    def __init__(self, *, line_seconds: float = LINE_SECONDS) -> None:
        self._line_seconds = line_seconds
        self._logged_at = float("-inf")
        self._unlogged = 0

    def failed(self, use: str, error: BaseException) -> None:
        """Count a failure of ``use``; log it unless a line is younger than 60 s."""
        FAILURES.labels(use).inc()
        now = monotonic()
        if now - self._logged_at < self._line_seconds:
            self._unlogged += 1
            return
        more, self._logged_at, self._unlogged = self._unlogged, now, 0
        log.warning(
            "the database does not answer",
            use=use,
            error=str(error),
            error_type=type(error).__name__,
            failures_since_last_line=more,
        )


DATABASE = DatabaseOutage()


def on_loop_error(loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
    """Count driver errors that reach the event loop (``loop.set_exception_handler``).

    A session that is ended in the middle of a message leaves the driver's protocol in a state it raises for,
    from a callback of the loop, where nothing can catch it. The connection is discarded in any case, so
    counting is all there is to do.
    """
    error = context.get("exception")
    if isinstance(error, DRIVER_ERRORS):
        DATABASE.failed("driver", error)
    else:
        loop.default_exception_handler(context)
