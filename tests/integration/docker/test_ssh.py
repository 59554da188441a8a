"""OpenSSH reaches workspaces in Docker containers, whatever their image has."""

from pathlib import Path
from typing import Any

import pytest

from codehub.runtimes.docker.names import INSTALLATION
from tests.support.docker_environment import DockerEnvironment
from tests.support.docker_images import ensure_images, image
from tests.support.inside_use import use_from_within
from tests.support.instance import codehub_up
from tests.support.people import QUICK, Person
from tests.support.requirements import require_inside, require_program

pytestmark = [pytest.mark.needs_docker, pytest.mark.timeout(600)]


async def test_ssh_commands_and_files_work_in_any_image(
    environment: DockerEnvironment, tmp_path: Path
) -> None:
    require_program("ssh", package="openssh-client")
    require_inside()
    ensure_images(environment.api, ["bare"])
    settings: dict[str, Any] = {
        **QUICK,
        "CODEHUB_RUNTIME": "docker",
        "DOCKER_HOST": environment.engine_url,
        "DOCKER_IMAGES": f"{image('tiny')},{image('bare')}",
        "DOCKER_JOB_IMAGE": image("job"),
    }
    async with codehub_up(tmp_path / "data", **settings) as instance, Person.admin(instance.url) as person:
        workspace_id = await person.running("thesis", image=image("tiny"))
        found = environment.api.container(f"ws-{workspace_id}")
        assert found is not None
        environment.will_clean(found["Config"]["Labels"][INSTALLATION])
        bare_id = await person.running("bare", image=image("bare"))
        await use_from_within(person, thesis=workspace_id, bare=bare_id, directory=tmp_path)
