"""Whether this process may get traffic: its database answers and has the schema this program needs."""

import asyncio

from sqlalchemy import text
from sqlalchemy.exc import ProgrammingError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine

from codehub.store import migrate
from codehub.store.errors import DRIVER_ERRORS

ANSWER_WITHIN = 3.0


class Readiness:
    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._head = migrate.head()

    async def why_not_ready(self) -> str | None:
        """None when ready. The reason names no address: everybody may ask this."""
        try:
            async with asyncio.timeout(ANSWER_WITHIN), self._engine.connect() as connection:
                revision = await connection.scalar(text("SELECT version_num FROM alembic_version"))
        except ProgrammingError:
            return "The database is empty: run `codehub migrate`."
        except (SQLAlchemyError, OSError, TimeoutError, *DRIVER_ERRORS):
            return "The database does not answer."
        if revision == self._head:
            return None
        return (
            f"The database is at revision {revision}, this program needs {self._head}: run `codehub migrate`."
        )
