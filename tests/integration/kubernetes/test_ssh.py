"""OpenSSH reaches workspaces in pods, whatever their image has."""

import json
from pathlib import Path

import pytest

from tests.support.docker_images import HOME, PORT, image
from tests.support.inside_use import use_from_within
from tests.support.instance import codehub_up
from tests.support.kubernetes_environment import KubernetesEnvironment
from tests.support.kubernetes_product import product_variables
from tests.support.people import Person
from tests.support.requirements import require_inside, require_program

pytestmark = pytest.mark.timeout(600)


async def test_ssh_commands_and_files_work_in_any_image(
    environment: KubernetesEnvironment, tmp_path: Path
) -> None:
    require_program("ssh", package="openssh-client")
    require_inside()
    images = {
        name: {"image": image(name), "port": PORT, "home": HOME, "pull_policy": "Never"}
        for name in ("tiny", "bare")
    }
    settings = {
        **product_variables(environment),
        "CODEHUB_KUBERNETES_IMAGES": json.dumps(images),
        "CODEHUB_KUBERNETES_INSIDE_IMAGE": image("inside"),
    }
    async with codehub_up(tmp_path / "data", **settings) as instance, Person.admin(instance.url) as person:
        workspace_id = await person.running("thesis", image="tiny")
        bare_id = await person.running("bare", image="bare")
        await use_from_within(person, thesis=workspace_id, bare=bare_id, directory=tmp_path)


async def test_an_image_that_cannot_bring_it_is_told_and_stops_no_workspace(
    environment: KubernetesEnvironment, tmp_path: Path
) -> None:
    require_inside()
    settings = {**product_variables(environment), "CODEHUB_KUBERNETES_INSIDE_IMAGE": image("tiny")}
    async with codehub_up(tmp_path / "data", **settings) as instance, Person.admin(instance.url) as person:
        workspace_id = await person.running("thesis", image="tiny")
        path = f"/api/v1/workspaces/{workspace_id}/files/stat"
        answer = await person.client.get(path, params={"path": "."}, timeout=60)
        assert answer.status_code >= 500
        assert "CODEHUB_KUBERNETES_INSIDE_IMAGE" in answer.text
