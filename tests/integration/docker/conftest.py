"""An environment on the machine's engine for every test that asks for one."""

from collections.abc import AsyncIterator
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from tests.support.docker_environment import DockerEnvironment
from tests.support.requirements import require_docker


@pytest.fixture
async def environment(tmp_path: Path) -> AsyncIterator[DockerEnvironment]:
    environment = DockerEnvironment(require_docker(), tmp_path)
    await environment.prepare()
    yield environment
    await environment.close()


@pytest.fixture
def ws() -> UUID:
    return uuid4()
