"""Commands in workspaces of the local runtime keep the contract, with bubblewrap and without."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from codehub.runtimes.local.sandbox import find_bubblewrap
from tests.contract.exec_suite import ExecContract, awake
from tests.contract.runtime_suite import runtime, ws
from tests.support.local_environment import LocalEnvironment

__all__ = ["awake", "runtime", "ws"]

WAYS = ["bare", *(["in bubblewrap"] if find_bubblewrap() else [])]


@pytest.fixture(params=WAYS)
async def environment(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[LocalEnvironment]:
    environment = LocalEnvironment(tmp_path, use_bubblewrap=request.param != "bare")
    yield environment
    await environment.close()


class TestLocalExec(ExecContract):
    pass
