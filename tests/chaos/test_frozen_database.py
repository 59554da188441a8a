"""PostgreSQL answers nobody, and the proxy has to know who asks and for what."""

import time

import httpx
import pytest

from tests.chaos.test_activity import ActivityEnvironment
from tests.chaos.test_activity import environment as environment  # the fixture
from tests.support.postgres import PostgresServer

pytestmark = pytest.mark.timeout(180)

DEADLINE_SECONDS = 10.0


async def test_the_proxy_answers_within_its_deadline_and_is_well_again_afterwards(
    environment: ActivityEnvironment, postgres_server: PostgresServer
) -> None:
    async with httpx.AsyncClient(trust_env=False, timeout=60) as client:

        async def ask(name: str) -> tuple[int, float]:
            began = time.monotonic()
            answer = await client.get(
                f"{environment.url}/w/{environment.workspace_id}/", headers={"Cookie": name}
            )
            return answer.status_code, time.monotonic() - began

        with postgres_server.frozen():
            # Nobody it knows, so that it has to ask: twice, because the second finds the first one waiting.
            for _ in range(2):
                status, seconds = await ask("codehub_session=somebody-else")
                assert status == 503
                assert seconds < DEADLINE_SECONDS + 3
        await environment.until_open()
