"""Fixtures every kind of test may ask for. Nothing starts before a test needs it."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
from _pytest.nodeid import NodeId

from codehub.store.db import connections
from codehub.store.db.pool import Pool
from codehub.store.db.session import Session, Sessions
from tests.support import postgres
from tests.support.postgres import PostgresServer

pytest_plugins = ["tests.cluster.fixtures", "tests.support.redis", "tests.support.skips"]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What waits for images being built in the background comes last; groups stay together."""
    items.sort(key=lambda item: item.get_closest_marker("needs_built_images") is not None)
    if config.getoption("loadgroup", default=False):
        for item in items:
            name_group(item)


def name_group(item: pytest.Item) -> None:
    """Put the group of a test into its id, by which xdist 3.8 keeps a group on one worker.

    xdist writes to an attribute that pytest 9.2 no longer reads.
    """
    group = item.get_closest_marker("xdist_group")
    if group is not None and not item.nodeid.endswith(f"@{group.args[0]}"):
        item._id = NodeId.parse(f"{item.nodeid}@{group.args[0]}")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """One real PostgreSQL for this test process (under xdist: one per worker)."""
    with postgres.run_server() as server:
        yield server


@pytest.fixture(scope="session")
def postgres_template(postgres_server: PostgresServer) -> str:
    return asyncio.run(postgres.ensure_template(postgres_server))


@pytest.fixture
async def empty_database_url(postgres_server: PostgresServer) -> AsyncIterator[str]:
    """A database nobody has migrated."""
    async with postgres.fresh_database(postgres_server) as url:
        yield url


@pytest.fixture
async def database_url(postgres_server: PostgresServer, postgres_template: str) -> AsyncIterator[str]:
    """A migrated, empty database of this test's own."""
    async with postgres.fresh_database(postgres_server, template=postgres_template) as url:
        yield url


@pytest.fixture
async def pool(database_url: str) -> AsyncIterator[Pool]:
    pool = connections.create_pool(database_url)
    yield pool
    await pool.dispose()


@pytest.fixture
def session_factory(pool: Pool) -> Sessions:
    return connections.session_factory(pool)


@pytest.fixture
async def session(session_factory: Sessions) -> AsyncIterator[Session]:
    async with session_factory() as session:
        yield session
