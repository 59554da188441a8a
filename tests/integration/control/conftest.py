from pathlib import Path

import pytest

from codehub.store.db.session import Sessions
from tests.support.control import ControlEnvironment


@pytest.fixture
async def environment(
    database_url: str,
    redis_url: str,
    session_factory: Sessions,
    tmp_path: Path,
) -> ControlEnvironment:
    environment = ControlEnvironment(database_url, redis_url, tmp_path, session_factory)
    await environment.prepare()
    return environment
