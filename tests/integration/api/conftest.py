"""A whole API over a real PostgreSQL and a real Redis, and people who use it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from codehub.services.passwords import Passwords
from codehub.signals.connection import RedisLink
from codehub.store.db.pool import Pool
from codehub.store.db.session import Sessions
from tests.integration.api.environment import ApiEnvironment, make_environment
from tests.support.accounts import cheap_passwords


@pytest.fixture(scope="session")
def passwords() -> Passwords:
    return cheap_passwords()


@pytest.fixture
async def environment(
    pool: Pool,
    session_factory: Sessions,
    redis_link: RedisLink,
    passwords: Passwords,
    tmp_path: Path,
) -> AsyncIterator[ApiEnvironment]:
    async with make_environment(
        pool=pool, sessions=session_factory, link=redis_link, passwords=passwords, directory=tmp_path
    ) as environment:
        yield environment
