"""A replica that runs while a newer one migrates: it serves on with what was added, and leaves when that ends."""

import json
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from codehub.server.data_dir import DataDir
from codehub.server.processes.embedded import postgres
from codehub.store import migrate
from tests.support.instance import codehub_up, status_of
from tests.support.people import ECHO, QUICK, Person
from tests.support.waiting import until

pytestmark = pytest.mark.timeout(240)

EXPANDED = f"""
    ALTER TABLE workspaces ADD COLUMN of_the_next_release text NOT NULL DEFAULT 'something';
    CREATE TABLE also_of_the_next_release (id int PRIMARY KEY);
    UPDATE alembic_version SET version_num = '9998';
    COMMENT ON TABLE alembic_version IS '{migrate.head()}';
"""
CONTRACTED = """
    ALTER TABLE workspaces DROP COLUMN of_the_next_release;
    UPDATE alembic_version SET version_num = '9999';
    COMMENT ON TABLE alembic_version IS '9998';
"""


async def test_an_old_replica_serves_while_the_schema_only_adds(tmp_path: Path) -> None:
    settings: dict[str, Any] = {**QUICK, "LOCAL_IMAGES": json.dumps({"echo": ECHO})}
    async with (
        codehub_up(tmp_path / "data", **settings) as instance,
        Person.admin(instance.url) as person,
    ):
        before = await person.running("before")
        connection = await asyncpg.connect(postgres.url(DataDir(tmp_path / "data")))
        try:
            await connection.execute(EXPANDED)
            # Its prepared statements, its triggers and its coordinators meet the new column.
            assert await status_of(f"{instance.url}/health/ready") == 200
            await person.running("while it adds")
            await person.intent(before, "stop")
            await person.until_status(before, "standby")

            await connection.execute(CONTRACTED)

            async def leaves() -> bool:
                return await status_of(f"{instance.url}/health/ready") == 503

            await until(leaves, seconds=30, what="/health/ready to say 503")
        finally:
            await connection.close()
