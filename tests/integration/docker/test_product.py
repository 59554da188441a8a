"""The whole of CodeHub on Docker: through its own command, its API and its proxy."""

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from codehub.runtimes.docker.names import INSTALLATION
from tests.support.docker_environment import DockerEnvironment
from tests.support.docker_images import image
from tests.support.instance import codehub_up
from tests.support.people import QUICK, Person, coordinators
from tests.support.waiting import until

pytestmark = [pytest.mark.needs_docker, pytest.mark.timeout(180)]


async def test_a_home_lives_through_sleep_archive_and_an_engine_that_was_away(
    environment: DockerEnvironment, tmp_path: Path
) -> None:
    settings: dict[str, Any] = {
        **QUICK,
        "RECONCILER_RETRY_BACKOFF": "1",
        "CODEHUB_RUNTIME": "docker",
        "DOCKER_HOST": environment.engine_url,
        "DOCKER_IMAGES": image("tiny"),
        "DOCKER_JOB_IMAGE": image("job"),
    }
    async with codehub_up(tmp_path / "data", **settings) as instance, Person.admin(instance.url) as person:
        workspace_id = await person.running("project", image=image("tiny"))
        found = environment.api.container(f"ws-{workspace_id}")
        assert found is not None
        environment.will_clean(found["Config"]["Labels"][INSTALLATION])
        await environment.write(UUID(workspace_id), "notes.txt", "mine")
        await person.intent(workspace_id, "archive")
        await person.until_status(workspace_id, "archived")
        assert environment.api.container(f"ws-{workspace_id}") is None

        await person.navigate(f"/w/{workspace_id}/")  # whoever opens the address brings it back
        await person.until_open(workspace_id)
        await person.until_status(workspace_id, "running")  # people are let in a moment before that
        assert await environment.read(UUID(workspace_id), "notes.txt") == "mine"

        await environment.break_engine()

        async def is_noticed() -> bool:
            return (await coordinators(instance.url))["observer"]["last_error"] is not None

        await until(is_noticed, what="the engine to be missed")
        assert (await person.workspace(workspace_id))["status"] == "running"  # and nothing concluded
        await environment.mend_engine()
        await environment.kill_container(UUID(workspace_id))
        await person.until_open(workspace_id, seconds=90)  # the intent stands
