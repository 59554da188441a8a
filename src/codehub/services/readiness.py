"""Readiness: the database answers and has the schema this program needs."""

import asyncio

import asyncpg
from sqlalchemy import Text

from codehub.store import migrate
from codehub.store.db.session import Sessions
from codehub.store.db.typed_text import typed_text
from codehub.store.errors import DATABASE_FAILED

TIMEOUT_SECONDS = 3.0

_REVISION = typed_text(f"SELECT version_num, {migrate.OLDEST_PROGRAM} FROM alembic_version", Text(), Text())


class Readiness:
    """Checks whether this process may get traffic."""

    def __init__(self, reading: Sessions) -> None:
        self._reading = reading
        self._head = migrate.head()

    async def why_not_ready(self) -> str | None:
        """Return why this process is not ready; None if it is.

        The reason names no address: the endpoint needs no authentication.
        """
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS), self._reading() as session:
                found = (await session.exec(_REVISION)).one_or_none()
        except asyncpg.UndefinedTableError:
            return "The database is empty: run `codehub migrate`."
        except DATABASE_FAILED:
            return "The database does not answer."
        revision, oldest_program = found or (None, None)
        if migrate.serves(revision, oldest_program):
            return None
        return (
            f"The database is at revision {revision}, this program needs {self._head}: run `codehub migrate`."
        )
