"""The Kubernetes runtime keeps the contract, with real pods and the real storage job."""

from dataclasses import replace
from uuid import UUID

import pytest

from codehub.domain.errors import EffectError, FailureCode
from codehub.runtimes.inside import PROGRAM
from codehub.runtimes.kubernetes.catalogue import Image
from tests.contract.exec_suite import (
    EngineExecContract,
    ExecContract,
    HelperExecContract,
    awake,
    said_by,
    use_without_shell,
)
from tests.contract.runtime_suite import (
    FIRST,
    HomeUsersContract,
    NodesContract,
    RuntimeContract,
    runtime,
    start,
    ws,
)
from tests.support.docker_images import image
from tests.support.kubernetes_environment import HOME, PORT, KubernetesEnvironment, environment, store
from tests.support.requirements import require_inside

__all__ = ["awake", "environment", "runtime", "store", "ws"]


class TestKubernetesRuntime(
    RuntimeContract, HomeUsersContract, NodesContract, ExecContract, EngineExecContract
):
    pass


class TestWithInside(HelperExecContract):
    """Pods that have the mount; those above are as an older release, or no image for it, leaves them."""

    @pytest.fixture(autouse=True)
    def _with_inside(self, environment: KubernetesEnvironment) -> None:
        require_inside()
        environment.settings = replace(environment.settings, inside_image=image("inside"))


async def test_an_image_without_a_shell(environment: KubernetesEnvironment, ws: UUID) -> None:
    require_inside()
    images = {"bare": Image(image("bare"), port=PORT, home=HOME, pull_policy="Never")}
    runtime = await environment.open(images=images, inside_image=image("inside"))
    await runtime.provision(ws, token=FIRST)
    await start(runtime, ws, image="bare")
    await use_without_shell(runtime, ws)


async def test_a_command_runs_where_inside_cannot_be_had(
    environment: KubernetesEnvironment, ws: UUID
) -> None:
    """By the image's own shell; what needs the program itself is told why."""
    require_inside()
    runtime = await environment.open(inside_image=image("tiny"))  # which has none
    await runtime.provision(ws, token=FIRST)
    await start(runtime, ws, image=environment.image)
    ended, _ = await said_by(runtime, ws, ["sh", "-c", "exit 7"])
    assert ended.code == 7
    with pytest.raises(EffectError, match="CODEHUB_KUBERNETES_INSIDE_IMAGE") as raised:
        await runtime.exec(ws, [PROGRAM, "ssh"])
    assert raised.value.failure is FailureCode.EXEC_FAILED
