"""Counters of the proxy: plain integers, so that counting costs nothing and reading needs no lock.

``server`` exposes them as ``codehub_proxy_…``. The loop is the only writer.
"""

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class Metrics:
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
