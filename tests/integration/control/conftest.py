from pathlib import Path

import pytest
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

from tests.support.control import Cell


@pytest.fixture
async def cell(
    database_url: str,
    redis_url: str,
    session_factory: async_sessionmaker[AsyncSession],
    tmp_path: Path,
) -> Cell:
    cell = Cell(database_url, redis_url, tmp_path, session_factory)
    await cell.prepare()
    return cell
