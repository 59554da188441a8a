"""The proxy's numbers reach Prometheus, whatever was counted."""

import asyncio
import json
import os
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest

from codehub.proxy.metrics import Metrics
from codehub.server.proxy.metrics import ProxyCollector, keep_writing, numbers_file
from tests.support.waiting import until


async def test_answers_and_refusals_are_counted_by_what_they_were(tmp_path: Path) -> None:
    metrics = Metrics(requests_total=3)
    metrics.answers[503] += 2
    metrics.refusals["origin"] += 1
    path = numbers_file(tmp_path, parent=os.getpid(), number=0)
    writing = asyncio.create_task(keep_writing(metrics, path))

    async def written() -> bool:
        return path.exists() or writing.done()

    await until(written)
    assert not writing.done(), writing
    writing.cancel()
    assert json.loads(path.read_text())["answers"] == {"503": 2}
    registry = CollectorRegistry()
    ProxyCollector(tmp_path, registry)
    shown = generate_latest(registry).decode()
    assert 'codehub_proxy_answers_total{process="0",status="503"} 2.0' in shown
    assert 'codehub_proxy_refusals_total{cause="origin",process="0"} 1.0' in shown
    assert 'codehub_proxy_requests_total{process="0"} 3.0' in shown
