"""CodeHub in a container of its own image, on the engine that runs its workspaces: see ``deploy/compose``."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import UUID

import httpx
import pytest

from codehub.runtimes.docker.names import INSTALLATION
from tests.support.built_images import built_image
from tests.support.docker_environment import DockerEnvironment
from tests.support.docker_images import image
from tests.support.object_stores import rclone_server
from tests.support.people import QUICK, Person
from tests.support.ports import free_port
from tests.support.waiting import until

pytestmark = [pytest.mark.needs_docker, pytest.mark.needs_built_images, pytest.mark.timeout(1500)]

SOCKET = "/var/run/docker.sock"


@asynccontextmanager
async def codehub_container(
    environment: DockerEnvironment, reference: str, **variables: str
) -> AsyncIterator[str]:
    """As ``deploy/compose`` runs it: an ordinary user, no capabilities, and the engine's socket."""
    port = free_port()
    config = {
        "Image": reference,
        "Env": [
            f"{name}={value}" for name, value in {**variables, "CODEHUB_BIND": f"127.0.0.1:{port}"}.items()
        ],
        "HostConfig": {
            "NetworkMode": "host",
            "CapDrop": ["ALL"],
            "SecurityOpt": ["no-new-privileges:true"],
            "GroupAdd": [str(os.stat(environment.api.socket_path).st_gid)],
            "Mounts": [{"Type": "bind", "Source": environment.api.socket_path, "Target": SOCKET}],
        },
    }
    container = environment.api.call("POST", "/containers/create", body=config)["Id"]
    url = f"http://127.0.0.1:{port}"
    try:
        environment.api.call("POST", f"/containers/{container}/start")
        await until(lambda: is_ready(environment, container, url), seconds=120, what="CodeHub to be ready")
        yield url
    finally:
        environment.api.remove_container(container)


async def is_ready(environment: DockerEnvironment, container: str, url: str) -> bool:
    state = environment.api.call("GET", f"/containers/{container}/json")["State"]
    said = environment.api.call("GET", f"/containers/{container}/logs", stdout="1", stderr="1", tail="20")
    assert state["Running"], said
    try:
        async with httpx.AsyncClient(trust_env=False, timeout=5) as client:
            return (await client.get(f"{url}/health/ready")).is_success
    except httpx.TransportError:
        return False


async def test_it_keeps_workspaces_from_inside_a_container(
    environment: DockerEnvironment, tmp_path: Path
) -> None:
    """Its own image also does the storage jobs."""
    reference = built_image("codehub")
    (tmp_path / "s3").mkdir()
    with rclone_server(tmp_path / "s3") as store:
        bucket = store.new_bucket()
        variables = {
            **QUICK,
            **store.variables(bucket),
            "CODEHUB_RUNTIME": "docker",
            "DOCKER_IMAGES": image("tiny"),
            "DOCKER_JOB_IMAGE": reference,
            "DOCKER_JOB_NETWORK": "host",  # where this store is
        }
        async with codehub_container(environment, reference, **variables) as url, Person.admin(url) as person:
            workspace_id = await person.running("project", image=image("tiny"))
            found = environment.api.container(f"ws-{workspace_id}")
            assert found is not None
            environment.will_clean(found["Config"]["Labels"][INSTALLATION])
            await environment.write(UUID(workspace_id), "notes.txt", "mine")
            await person.intent(workspace_id, "archive")
            await person.until_status(workspace_id, "archived", seconds=120)
            assert [key for key in store.keys(bucket) if key.endswith("/home.tar.zst")]
            await person.navigate(f"/w/{workspace_id}/")
            await person.until_open(workspace_id, seconds=120)
            assert await environment.read(UUID(workspace_id), "notes.txt") == "mine"
