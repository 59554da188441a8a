"""The local runtime keeps the contract, with real processes; with bubblewrap too where that works."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from codehub.runtimes.local.sandbox import find_bubblewrap
from tests.contract.runtime_suite import RuntimeContract, runtime, ws
from tests.support.local_environment import LocalEnvironment

__all__ = ["runtime", "ws"]

WAYS = [
    ("on a port", False),
    ("on a socket", False),
    *([("on a port", True), ("on a socket", True)] if find_bubblewrap() else []),
]


@pytest.fixture(params=WAYS, ids=lambda way: way[0] + (" in bubblewrap" if way[1] else ""))
async def environment(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[LocalEnvironment]:
    where, use_bubblewrap = request.param
    environment = LocalEnvironment(tmp_path, use_bubblewrap=use_bubblewrap, on_socket=where == "on a socket")
    yield environment
    await environment.close()


class TestLocalRuntime(RuntimeContract):
    pass
