"""Embedded PostgreSQL and Redis in the data directory, where none are configured.

``endpoints()`` yields the two addresses the rest of CodeHub uses, and runs what was not configured for the
length of its block.
"""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from codehub.server.data_dir import DataDir, DataDirInUseError
from codehub.server.processes.embedded import postgres, redis
from codehub.server.processes.supervisor import Supervisor
from codehub.server.settings.tree import Settings


@dataclass(frozen=True)
class Endpoints:
    """Addresses of PostgreSQL and Redis. They may hold passwords: not shown in repr."""

    database_url: str = field(repr=False)
    redis_url: str = field(repr=False)


@contextlib.asynccontextmanager
async def endpoints(settings: Settings) -> AsyncIterator[Endpoints]:
    """Run the embedded servers that are needed, under the data directory's lock.

    They are stopped at the end of the block. If this process dies, the kernel ends both servers; the next
    process that gets the lock ends what is left of them.
    """
    database_url, redis_url = settings.database.url, settings.redis.url
    if database_url is not None and redis_url is not None:
        yield Endpoints(database_url.get_secret_value(), redis_url.get_secret_value())
        return
    data_dir = DataDir(settings.data_dir)
    data_dir.prepare()
    with data_dir.locked():
        supervisor = Supervisor()
        try:
            if database_url is None:
                await supervisor.start(await postgres.child(data_dir))
                await postgres.ensure_database(data_dir)
            if redis_url is None:
                await supervisor.start(redis.child(data_dir))
            yield Endpoints(
                database_url.get_secret_value() if database_url else postgres.url(data_dir),
                redis_url.get_secret_value() if redis_url else redis.url(data_dir),
            )
        finally:
            await supervisor.stop()


@contextlib.asynccontextmanager
async def database(settings: Settings) -> AsyncIterator[str]:
    """The database's address, for a short command.

    The configured one; or the socket of an embedded server that another process runs; otherwise the embedded
    server is started for the length of the block.
    """
    if settings.database.url is not None:
        yield settings.database.url.get_secret_value()
        return
    data_dir = DataDir(settings.data_dir)
    data_dir.prepare()
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(data_dir.locked())
        except DataDirInUseError:
            yield postgres.url(data_dir)
            return
        supervisor = Supervisor()
        try:
            await supervisor.start(await postgres.child(data_dir))
            await postgres.ensure_database(data_dir)
            yield postgres.url(data_dir)
        finally:
            await supervisor.stop()
