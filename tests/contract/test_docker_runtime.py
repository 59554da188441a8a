"""The Docker runtime keeps the contract, with real containers and the real storage job."""

from collections.abc import AsyncIterator
from pathlib import Path
from uuid import UUID

import pytest

from codehub.runtimes.docker import inside_volume
from tests.contract.exec_suite import (
    EngineExecContract,
    ExecContract,
    HelperExecContract,
    awake,
    use_without_shell,
)
from tests.contract.runtime_suite import FIRST, HomeUsersContract, RuntimeContract, runtime, start, ws
from tests.support.docker_environment import DockerEnvironment
from tests.support.docker_images import ensure_images, image
from tests.support.requirements import require_docker, require_inside

__all__ = ["awake", "runtime", "ws"]

pytestmark = pytest.mark.needs_docker


@pytest.fixture
async def environment(tmp_path: Path) -> AsyncIterator[DockerEnvironment]:
    environment = DockerEnvironment(require_docker(), tmp_path)
    await environment.prepare()
    yield environment
    await environment.close()


class TestDockerRuntime(RuntimeContract, HomeUsersContract, ExecContract, EngineExecContract):
    pass


class TestWithoutInside(HelperExecContract):
    """A workspace that was started without the mount, as by an older release: its image has a shell."""

    @pytest.fixture(autouse=True)
    def _not_built(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(inside_volume, "find_inside", lambda _: None)


async def test_an_image_without_a_shell(environment: DockerEnvironment, ws: UUID) -> None:
    require_inside()
    ensure_images(environment.api, ["bare"])
    runtime = await environment.open(images=[image("bare")])
    await runtime.provision(ws, token=FIRST)
    await start(runtime, ws, image=image("bare"))
    await use_without_shell(runtime, ws)
