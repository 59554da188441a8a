"""A CodeHub over a real PostgreSQL and a real Redis, for the command to talk to."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from codehub.signals.connection import RedisLink
from codehub.store.db.pool import Pool
from codehub.store.db.session import Sessions
from tests.integration.cli.environment import CliEnvironment
from tests.support.accounts import cheap_passwords
from tests.support.control import ControlEnvironment


@pytest.fixture
async def quiet_environment(
    pool: Pool,
    session_factory: Sessions,
    redis_link: RedisLink,
    redis_url: str,
    database_url: str,
    tmp_path: Path,
) -> AsyncIterator[CliEnvironment]:
    """Not serving yet."""
    control = ControlEnvironment(database_url, redis_url, tmp_path / "data", session_factory)
    await control.prepare()
    passwords = cheap_passwords()
    environment = CliEnvironment(control, pool, redis_link, passwords, tmp_path)
    yield environment
    environment.close()
    passwords.close()


@pytest.fixture
async def environment(quiet_environment: CliEnvironment) -> AsyncIterator[CliEnvironment]:
    """Serving, without a control plane: nothing moves unless the test moves it."""
    async with quiet_environment.serving():
        yield quiet_environment
