"""The Docker runtime keeps the contract, with real containers and the real storage job."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.contract.runtime_suite import HomeUsersContract, RuntimeContract, runtime, ws
from tests.support.docker_engine import DockerBench
from tests.support.requirements import require_docker

__all__ = ["runtime", "ws"]

pytestmark = pytest.mark.needs_docker


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[DockerBench]:
    bench = DockerBench(require_docker(), tmp_path)
    await bench.prepare()
    yield bench
    await bench.close()


class TestDockerRuntime(RuntimeContract, HomeUsersContract):
    pass
