"""A bench on the machine's engine for every test that asks for one."""

from collections.abc import AsyncIterator
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from tests.support.docker_engine import DockerBench
from tests.support.requirements import require_docker


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[DockerBench]:
    bench = DockerBench(require_docker(), tmp_path)
    await bench.prepare()
    yield bench
    await bench.close()


@pytest.fixture
def ws() -> UUID:
    return uuid4()
