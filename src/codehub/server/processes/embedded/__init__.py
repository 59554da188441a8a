"""PostgreSQL and Redis inside the data directory, for those who have none.

``endpoints()`` is what everybody uses: it gives the two addresses the rest of CodeHub works with, and runs
what was not configured for as long as the block lasts.
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
    """Where PostgreSQL and Redis are. The addresses may hold passwords: they are not shown."""

    database_url: str = field(repr=False)
    redis_url: str = field(repr=False)


@contextlib.asynccontextmanager
async def endpoints(settings: Settings) -> AsyncIterator[Endpoints]:
    """Run the embedded servers that are needed, under the data directory's lock, and stop them at the end.

    If this process dies in here, the kernel ends both servers; what should be left of them all the same is
    ended by the next one that gets the lock.
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
    """The database's address, for a command that needs it for a moment.

    Configured: that one. Embedded and running in another process: that one's socket. Otherwise the embedded
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
