"""The local runtime keeps the contract, with real processes; with bubblewrap too where that works."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from codehub.runtimes.local.sandbox import find_bubblewrap
from tests.contract.runtime_suite import RuntimeContract, runtime, ws
from tests.support.local_bench import LocalBench

__all__ = ["runtime", "ws"]

SANDBOXES = ["bare", "bubblewrap"] if find_bubblewrap() else ["bare"]


@pytest.fixture(params=SANDBOXES)
async def bench(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[LocalBench]:
    bench = LocalBench(tmp_path, use_bubblewrap=request.param == "bubblewrap")
    yield bench
    await bench.close()


class TestLocalRuntime(RuntimeContract):
    pass
