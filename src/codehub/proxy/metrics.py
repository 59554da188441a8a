"""Count what the proxy does.

Plain integers without a lock: the event loop is the only writer. ``server`` exposes them as ``codehub_proxy_…``.
"""

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class Metrics:
    """Counters and gauges of one proxy."""

    connections_open: int = 0
    connections_total: int = 0
    connections_refused_total: int = 0
    requests_total: int = 0
    websockets_open: int = 0
    websockets_total: int = 0
    upstream_connects_total: int = 0
    upstream_connect_failures_total: int = 0
    upstream_reused_total: int = 0
    upstream_broken_total: int = 0
    cache_misses_total: int = 0
    wakes_total: int = 0
    activity_failures_total: int = 0
    directory_failures_total: int = 0
    answers: Counter[int] = field(default_factory=Counter)  # the proxy's own answers, by status
    refusals: Counter[str] = field(default_factory=Counter)  # malformed or hostile requests, by cause
