"""Export the proxy processes' counters on the API process's ``/metrics``.

The proxies share one port, so Prometheus cannot scrape each. Every few seconds each writes its counters to a file
beside the sockets, and the API's process reads them when it is scraped. A file that is a few seconds old, or
missing while a process restarts, costs a little precision and nothing else.
"""

import asyncio
import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import fields
from pathlib import Path

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from codehub.proxy.metrics import Metrics

WRITE_EVERY = 2.0


def numbers_file(sockets: Path, *, parent: int, number: int) -> Path:
    return sockets / f"proxy-{parent}-{number}.json"


async def keep_writing(metrics: Metrics, path: Path) -> None:
    """Write the counters every few seconds until cancelled. Atomic, by rename."""
    aside = path.with_suffix(".new")
    written = ""
    while True:
        numbers = json.dumps(_numbers(metrics))
        if numbers != written:  # write only what changed
            with suppress(OSError):
                aside.write_text(numbers)
                aside.replace(path)
                written = numbers
        await asyncio.sleep(WRITE_EVERY)


def _numbers(metrics: Metrics) -> dict[str, int | dict[str, int]]:
    # Not ``asdict``: it rebuilds a Counter from its items, with pairs as keys, which JSON cannot hold.
    return {each.name: getattr(metrics, each.name) for each in fields(metrics)}


class ProxyCollector:
    """Prometheus collector of the proxies. ``close`` removes it and their files."""

    def __init__(self, sockets: Path, registry: CollectorRegistry) -> None:
        self._sockets = sockets
        self._registry = registry
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        for path in self._files():
            try:
                numbers = json.loads(path.read_text())
            except (OSError, ValueError):
                continue
            yield from _families(numbers, process=path.stem.rpartition("-")[2])

    def close(self) -> None:
        self._registry.unregister(self)
        for path in self._files():
            path.unlink(missing_ok=True)

    def _files(self) -> list[Path]:
        return sorted(self._sockets.glob(f"proxy-{os.getpid()}-*.json"))


def _families(numbers: dict[str, int | dict[str, int]], *, process: str) -> Iterator[Metric]:
    for name, value in numbers.items():
        label = "status" if name == "answers" else "cause"
        if isinstance(value, dict):
            family = CounterMetricFamily(
                f"codehub_proxy_{name}", f"Proxy: {name}, by {label}", labels=["process", label]
            )
            for key, count in value.items():
                family.add_metric([process, str(key)], count)
            yield family
        else:
            kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
            words = name.removesuffix("_total").replace("_", " ")
            single = kind(f"codehub_proxy_{name}", f"Proxy: {words}", labels=["process"])
            single.add_metric([process], value)
            yield single
