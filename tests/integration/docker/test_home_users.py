"""Whoever works on a home is found by its mount, whatever they are called."""

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID, uuid4

import pytest

from codehub.domain.errors import EffectError, FailureCode, Reason
from codehub.domain.states import ContainerState
from codehub.runtimes.base import Sighting
from tests.contract.runtime_suite import FIRST, SECOND, THIRD, ignore, job_of, sight, start
from tests.support.docker_environment import DockerEnvironment

pytestmark = pytest.mark.needs_docker


async def refusal_of_start(environment: DockerEnvironment, ws: UUID) -> EffectError:
    with pytest.raises(EffectError) as caught:
        await start(await environment.open(), ws, token=THIRD, image=environment.image)
    return caught.value


@contextmanager
def stranger(environment: DockerEnvironment, ws: UUID, *, running: bool = True) -> Iterator[str]:
    """A container somebody made by hand, on the workspace's volume. Gives its name."""
    name = f"stranger-{uuid4().hex[:8]}"
    mount = {"Type": "volume", "Source": f"ws-{ws}-home", "Target": "/theirs"}
    config = {
        "Image": environment.image,
        "Entrypoint": ["/bin/sleep", "1000"],
        "HostConfig": {"Mounts": [mount], "NetworkMode": "none"},
    }
    environment.api.call("POST", "/containers/create", body=config, name=name)
    try:
        if running:
            environment.api.call("POST", f"/containers/{name}/start")
        yield name
    finally:
        environment.api.remove_container(name)


def rename(environment: DockerEnvironment, ws: UUID) -> str:
    name = f"renamed-{uuid4().hex[:8]}"
    environment.api.call("POST", f"/containers/ws-{ws}/rename", name=name)
    return name


async def test_a_renamed_container_of_ours_keeps_a_second_one_away(
    environment: DockerEnvironment, ws: UUID
) -> None:
    runtime = await environment.open()
    await runtime.provision(ws, token=FIRST)
    await start(runtime, ws, image=environment.image)
    name = rename(environment, ws)
    error = await refusal_of_start(environment, ws)
    assert (error.failure, error.reason) == (FailureCode.VOLUME_USED_ELSEWHERE, Reason.MISMATCH)
    assert name in error.message
    assert error.context["actual"] == [name]
    assert environment.api.container(f"ws-{ws}") is None  # no second one, not even created
    found = environment.api.container(name)
    assert found is not None
    assert found["State"]["Running"]  # and the first is left alone
    environment.api.call("POST", f"/containers/{name}/rename", name=f"ws-{ws}")
    assert (await sight(runtime, ws)).container is ContainerState.RUNNING  # put right, it is ours again


async def test_nothing_is_archived_while_somebody_else_works_on_the_home(
    environment: DockerEnvironment, ws: UUID
) -> None:
    runtime = await environment.open()
    await runtime.provision(ws, token=FIRST)
    await start(runtime, ws, image=environment.image)
    name = rename(environment, ws)
    await runtime.stop(ws, token=SECOND)
    with pytest.raises(EffectError) as caught:
        await runtime.run_storage_job(job_of(ws), token=SECOND, on_progress=ignore)
    assert caught.value.failure is FailureCode.VOLUME_USED_ELSEWHERE
    assert name in caught.value.message
    assert not list(environment.store.glob(f"{ws}/**/home.tar.zst"))
    environment.api.remove_container(name)
    await runtime.run_storage_job(job_of(ws), token=SECOND, on_progress=ignore)


async def test_an_archive_that_somebody_joined_half_way_is_not_believed(
    environment: DockerEnvironment, ws: UUID
) -> None:
    runtime = await environment.open()
    await runtime.provision(ws, token=FIRST)
    names: list[str] = []
    with stranger(environment, ws, running=False) as name:

        async def join(progress: object) -> None:
            if not names:
                names.append(name)
                environment.api.call("POST", f"/containers/{name}/start")

        with pytest.raises(EffectError) as caught:
            await runtime.run_storage_job(job_of(ws), token=FIRST, on_progress=join)
        assert caught.value.failure is FailureCode.VOLUME_USED_ELSEWHERE
        assert names == [name]


@pytest.mark.parametrize("running", [True, False], ids=["running", "stopped"])
async def test_a_volume_somebody_else_holds_is_not_deleted_and_named(
    environment: DockerEnvironment, ws: UUID, running: bool
) -> None:
    runtime = await environment.open()
    await runtime.provision(ws, token=FIRST)
    with stranger(environment, ws, running=running) as name:
        with pytest.raises(EffectError) as caught:
            await runtime.delete_volume(ws, token=FIRST)
        assert caught.value.failure is FailureCode.VOLUME_USED_ELSEWHERE
        assert name in caught.value.message
        assert await sight(runtime, ws) == Sighting(volume=True)
    await runtime.delete_volume(ws, token=FIRST)


async def test_a_stopped_stranger_keeps_nobody_from_starting(
    environment: DockerEnvironment, ws: UUID
) -> None:
    runtime = await environment.open()
    await runtime.provision(ws, token=FIRST)
    with stranger(environment, ws, running=False):
        await start(runtime, ws, image=environment.image)
        assert (await sight(runtime, ws)).container is ContainerState.RUNNING


async def test_somebody_who_comes_between_create_and_start_is_seen(
    environment: DockerEnvironment, ws: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = await environment.open()
    await runtime.provision(ws, token=FIRST)
    create = runtime._engine.create_container
    with stranger(environment, ws, running=False) as name:

        async def create_and_be_joined(*args: object, **kwargs: object) -> str:
            created = await create(*args, **kwargs)  # type: ignore[arg-type]
            environment.api.call("POST", f"/containers/{name}/start")
            return created

        monkeypatch.setattr(runtime._engine, "create_container", create_and_be_joined)
        with pytest.raises(EffectError) as caught:
            await start(runtime, ws, image=environment.image)
        assert caught.value.failure is FailureCode.VOLUME_USED_ELSEWHERE
        assert environment.api.container(f"ws-{ws}") is None
