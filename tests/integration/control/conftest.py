from pathlib import Path

import pytest

from codehub.store.db.session import Sessions
from tests.support.control import Cell


@pytest.fixture
async def cell(
    database_url: str,
    redis_url: str,
    session_factory: Sessions,
    tmp_path: Path,
) -> Cell:
    cell = Cell(database_url, redis_url, tmp_path, session_factory)
    await cell.prepare()
    return cell
