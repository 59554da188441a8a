"""A CodeHub over a real PostgreSQL and a real Redis, for the command to talk to."""

from collections.abc import AsyncIterator
from pathlib import Path

import argon2
import pytest

from codehub.services.passwords import Passwords
from codehub.signals.connection import RedisLink
from codehub.store.db.pool import Pool
from codehub.store.db.session import Sessions
from tests.integration.cli.environment import CliEnvironment
from tests.support.control import ControlEnvironment


@pytest.fixture
async def quiet_hub(
    pool: Pool,
    session_factory: Sessions,
    redis_link: RedisLink,
    redis_url: str,
    database_url: str,
    tmp_path: Path,
) -> AsyncIterator[CliEnvironment]:
    """Not serving yet."""
    cell = ControlEnvironment(database_url, redis_url, tmp_path / "data", session_factory)
    await cell.prepare()
    passwords = Passwords(hasher=argon2.PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))
    environment = CliEnvironment(cell, pool, redis_link, passwords, tmp_path)
    yield environment
    environment.close()
    passwords.close()


@pytest.fixture
async def environment(quiet_hub: CliEnvironment) -> AsyncIterator[CliEnvironment]:
    """Serving, without a control plane: nothing moves unless the test moves it."""
    async with quiet_hub.serving():
        yield quiet_hub
