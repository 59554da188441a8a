"""Containers as the engine sees them: what they may do, whose they are, and what happens around them."""

import asyncio
import urllib.request
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from codehub.domain.errors import EffectError, FailureCode
from codehub.domain.states import ContainerState
from codehub.runtimes.base import Address, FencingToken, ResourceLimits, Sighting
from codehub.runtimes.docker import DockerRuntime, DockerSettings, fences
from codehub.runtimes.docker.names import INSTALLATION
from codehub.runtimes.inside import find_inside
from tests.contract.runtime_suite import FIRST, SECOND, failure_of, sight, start
from tests.support.docker_environment import DockerEnvironment
from tests.support.docker_images import busybox_tar, image
from tests.support.tiny_registry import run_registry
from tests.support.waiting import until

pytestmark = pytest.mark.needs_docker


async def bring_up(environment: DockerEnvironment, runtime: DockerRuntime, workspace_id: UUID) -> Address:
    await runtime.provision(workspace_id, token=FIRST)
    await start(runtime, workspace_id, image=environment.image)
    address = await runtime.address(workspace_id)
    assert address is not None
    return address


def fetch(address: Address) -> bytes:
    with urllib.request.urlopen(f"http://{address.host}:{address.port}/", timeout=5) as answer:
        return bytes(answer.read())


def run_inside(environment: DockerEnvironment, workspace_id: UUID, *command: str) -> int:
    """The exit code of a command in the workspace's container."""
    config = {"Cmd": list(command), "AttachStdout": True}
    created = environment.api.call("POST", f"/containers/ws-{workspace_id}/exec", body=config)
    environment.api.call("POST", f"/exec/{created['Id']}/start", body={"Detach": False})
    return int(environment.api.call("GET", f"/exec/{created['Id']}/json")["ExitCode"])


def can_connect(environment: DockerEnvironment, workspace_id: UUID, address: Address) -> bool:
    command = f"echo | nc -w 2 {address.host} {address.port}"
    return run_inside(environment, workspace_id, "/bin/sh", "-c", command) == 0


def inspect(environment: DockerEnvironment, name: str) -> dict[str, Any]:
    found = environment.api.container(name)
    assert found is not None
    return found


async def test_the_person_reaches_the_workspace_and_nobody_else_does(environment: DockerEnvironment) -> None:
    runtime = await environment.open()
    one, other = uuid4(), uuid4()
    first, second = await asyncio.gather(*(bring_up(environment, runtime, each) for each in (one, other)))
    assert await asyncio.to_thread(fetch, first) == b"a workspace\n"
    assert can_connect(environment, one, first)
    assert not can_connect(environment, one, second)


async def test_a_container_may_do_little(environment: DockerEnvironment, ws: UUID) -> None:
    runtime = await environment.open()
    limits = ResourceLimits(cpus=0.5, memory_bytes=64 * 1024 * 1024, pids=50)
    await runtime.provision(ws, token=FIRST)
    await runtime.start(ws, token=FIRST, image_ref=environment.image, env={"GREETING": "hi"}, limits=limits)
    found = inspect(environment, f"ws-{ws}")
    host = found["HostConfig"]
    assert not host["Privileged"]
    assert host["CapDrop"] == ["ALL"]
    assert not host["CapAdd"]
    assert host["SecurityOpt"] == ["no-new-privileges:true"]  # and no word on seccomp: Docker's own holds
    assert host["RestartPolicy"]["Name"] == "no"
    assert not host["PortBindings"]
    assert not host["Binds"]
    mounts = {mount["Destination"]: mount["RW"] for mount in found["Mounts"]}
    assert mounts == {"/home/person": True, **({"/.codehub": False} if find_inside() else {})}
    assert (host["NanoCpus"], host["Memory"], host["MemorySwap"]) == (500_000_000, 64 << 20, 64 << 20)
    assert host["PidsLimit"] == 50
    assert found["Config"]["User"] == "1000:1000"
    env = set(found["Config"]["Env"])
    assert {"GREETING=hi", "HOME=/home/person", "CODEHUB_PORT=8081", f"CODEHUB_BASE_PATH=/w/{ws}/"} <= env


async def test_a_new_home_belongs_to_the_images_user(environment: DockerEnvironment, ws: UUID) -> None:
    runtime = await environment.open()
    await bring_up(environment, runtime, ws)
    assert run_inside(environment, ws, "/bin/sh", "-c", "echo mine > /home/person/notes.txt") == 0
    assert await environment.read(ws, "notes.txt") == "mine\n"
    assert await environment.read(ws, ".profile") == "# from the image\n"


async def test_a_container_that_ignores_sigterm_is_gone_after_the_grace(
    environment: DockerEnvironment, ws: UUID
) -> None:
    runtime = await environment.open()
    await runtime.provision(ws, token=FIRST)
    await start(runtime, ws, image=image("stubborn"))
    await runtime.stop(ws, token=FIRST)
    assert await sight(runtime, ws) == Sighting(volume=True)


async def test_a_death_is_heard_of_at_once(environment: DockerEnvironment, ws: UUID) -> None:
    heard: list[UUID] = []
    runtime = await environment.open(on_exit=heard.append)
    await bring_up(environment, runtime, ws)

    async def was_heard() -> bool:
        if not heard:  # whoever comes too early to listen misses it; nobody depends on it
            await environment.kill_container(ws)
            await runtime.start(ws, token=FIRST, image_ref=environment.image, env={}, limits=ResourceLimits())
        return heard != []

    await until(was_heard, what="hint of the death")
    assert set(heard) == {ws}


async def test_deaths_are_heard_of_again_after_the_engine_was_away(
    environment: DockerEnvironment, ws: UUID
) -> None:
    heard: list[UUID] = []
    runtime = await environment.open(on_exit=heard.append)
    await bring_up(environment, runtime, ws)
    await environment.break_engine()
    assert await failure_of(runtime.address(ws)) is FailureCode.DOCKER_API_ERROR
    await environment.mend_engine()
    heard.clear()

    async def was_heard() -> bool:
        await start(runtime, ws, image=environment.image)
        await environment.kill_container(ws)
        return heard != []

    await until(was_heard, what="hint after reconnecting", seconds=60)


@pytest.mark.parametrize(
    "labels", [{}, {INSTALLATION: "somebody-else"}], ids=["a stranger's", "another CodeHub's"]
)
async def test_a_container_of_our_name_that_is_not_ours_is_left_alone(
    environment: DockerEnvironment, ws: UUID, labels: dict[str, str]
) -> None:
    runtime = await environment.open()
    await runtime.provision(ws, token=FIRST)
    config = {"Image": environment.image, "Labels": labels, "Env": ["CODEHUB_PORT=8081"]}
    created = environment.api.call("POST", "/containers/create", body=config, name=f"ws-{ws}")
    try:
        assert (
            await failure_of(start(runtime, ws, image=environment.image))
            is FailureCode.CONTAINER_START_FAILED
        )
        await runtime.stop(ws, token=FIRST)
        await runtime.remove_orphan_container(ws)
        assert inspect(environment, f"ws-{ws}")["Id"] == created["Id"]
        assert await sight(runtime, ws) == Sighting(volume=True)
    finally:
        environment.api.remove_container(created["Id"])


async def test_a_volume_of_our_name_that_is_not_ours_is_left_alone(
    environment: DockerEnvironment, ws: UUID
) -> None:
    runtime = await environment.open()
    name = f"ws-{ws}-home"
    environment.api.call("POST", "/volumes/create", body={"Name": name, "Labels": {"whose": "mine"}})
    try:
        assert await failure_of(runtime.provision(ws, token=FIRST)) is FailureCode.VOLUME_CREATE_FAILED
        assert await failure_of(start(runtime, ws, image=environment.image)) is FailureCode.VOLUME_MISSING
        await runtime.delete_volume(ws, token=FIRST)
        assert environment.api.call("GET", f"/volumes/{name}")["Labels"] == {"whose": "mine"}
    finally:
        environment.api.call("DELETE", f"/volumes/{name}")


async def test_a_volume_that_vanishes_before_the_start_is_not_replaced_by_an_empty_one(
    environment: DockerEnvironment, ws: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = await environment.open()
    await runtime.provision(ws, token=FIRST)
    create = runtime._engine.create_container

    async def create_too_late(name: str, config: dict[str, Any]) -> str:
        if name == f"ws-{ws}":
            environment.api.call("DELETE", f"/volumes/ws-{ws}-home")
        return await create(name, config)

    monkeypatch.setattr(runtime._engine, "create_container", create_too_late)
    assert await failure_of(start(runtime, ws, image=environment.image)) is FailureCode.VOLUME_MISSING
    assert await sight(runtime, ws) == Sighting()
    monkeypatch.undo()
    await runtime.provision(ws, token=FIRST)  # what Docker made by itself is out of the way
    await start(runtime, ws, image=environment.image)


async def test_a_container_left_created_by_a_dead_codehub_is_replaced(
    environment: DockerEnvironment, ws: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    dying = await environment.open()
    await dying.provision(ws, token=FIRST)

    async def die(container_id: str) -> None:
        raise asyncio.CancelledError

    monkeypatch.setattr(dying._engine, "start_container", die)
    with pytest.raises(asyncio.CancelledError):
        await start(dying, ws, image=environment.image)
    left = inspect(environment, f"ws-{ws}")
    assert left["State"]["Status"] == "created"
    successor = await environment.open()
    assert await sight(successor, ws) == Sighting(container=ContainerState.DEAD, volume=True)
    await start(successor, ws, token=FencingToken(1, 2), image=environment.image)
    assert inspect(environment, f"ws-{ws}")["Id"] != left["Id"]
    assert (await sight(successor, ws)).container is ContainerState.RUNNING


async def test_an_image_that_cannot_be_had_says_so(environment: DockerEnvironment, ws: UUID) -> None:
    runtime = await environment.open(images=())
    await runtime.provision(ws, token=FIRST)
    with pytest.raises(EffectError) as caught:
        await start(runtime, ws, image="127.0.0.1:1/nobody/has-this:1")
    assert caught.value.failure is FailureCode.IMAGE_PULL_FAILED
    assert "127.0.0.1:1/nobody/has-this:1" in caught.value.message
    assert await sight(runtime, ws) == Sighting(volume=True)


async def test_a_missing_image_is_pulled_once_however_many_wait_for_it(
    environment: DockerEnvironment,
) -> None:
    config = {
        "Entrypoint": ["/bin/sh", "-c", "echo listens; exec httpd -f -p $CODEHUB_PORT -h /www"],
        "Labels": {"codehub.base-path": "true"},
        "User": "1000",
    }
    layer = busybox_tar(page=uuid4().bytes)  # one the engine has never seen
    with run_registry(layer, config) as registry:
        reference = registry.reference("pulled")
        runtime = await environment.open(images=(reference,))
        ids = [uuid4() for _ in range(3)]
        try:
            for each in ids:
                await runtime.provision(each, token=FIRST)
            await asyncio.gather(*(start(runtime, each, image=reference) for each in ids))
            assert registry.requests[f"/v2/pulled/blobs/{registry.layer_digest}"] == 1
            assert runtime.uses_base_path(reference)
            asked = registry.requests.total()
            await runtime.stop(ids[0], token=FIRST)
            await start(runtime, ids[0], image=reference)
            assert registry.requests.total() == asked  # what is there is used as it is
            for each in ids:
                await runtime.stop(each, token=FIRST)
        finally:
            environment.api.call("DELETE", f"/images/{reference}", force="1", expect=(404, 409))


async def test_a_frozen_engine_is_an_engine_that_is_away(environment: DockerEnvironment, ws: UUID) -> None:
    runtime = await environment.open(call_seconds=0.5)
    await runtime.provision(ws, token=FIRST)
    await environment.freeze_engine()
    assert await failure_of(runtime.observe()) is FailureCode.DOCKER_API_ERROR
    assert await failure_of(runtime.stop(ws, token=FIRST)) is FailureCode.DOCKER_API_ERROR


async def test_an_outranked_start_does_not_come_through(
    environment: DockerEnvironment, ws: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    late, newer = await environment.open(), await environment.open()
    await late.provision(ws, token=FIRST)
    create = late._engine.create_container

    async def create_while_somebody_takes_over(name: str, config: dict[str, Any]) -> str:
        created = await create(name, config)
        await newer.provision(ws, token=SECOND)
        return created

    monkeypatch.setattr(late._engine, "create_container", create_while_somebody_takes_over)
    assert await failure_of(start(late, ws, image=environment.image)) is FailureCode.STALE_TOKEN
    assert await sight(newer, ws) == Sighting(volume=True)


async def test_the_wrong_engine_is_an_engine_that_is_away(environment: DockerEnvironment, ws: UUID) -> None:
    """Homes are known to exist and this engine has never seen us: then nothing follows from its emptiness."""
    runtime = await environment.open(create=False)
    assert await failure_of(runtime.observe()) is FailureCode.DOCKER_API_ERROR
    assert await failure_of(runtime.observe([ws])) is FailureCode.DOCKER_API_ERROR
    assert await failure_of(runtime.provision(ws, token=FIRST)) is FailureCode.DOCKER_API_ERROR
    first = await environment.open()
    await first.provision(ws, token=FIRST)
    assert await sight(runtime, ws) == Sighting(volume=True)


async def test_an_engine_that_lost_its_disk_is_away(environment: DockerEnvironment, ws: UUID) -> None:
    runtime = await environment.open()
    await runtime.provision(ws, token=FIRST)
    for volume in environment.api.listed("volumes", f"{INSTALLATION}={environment.installation_id()}"):
        environment.api.call("DELETE", f"/volumes/{volume['Name']}")
    assert await failure_of(runtime.observe()) is FailureCode.DOCKER_API_ERROR


async def test_fences_do_not_pile_up(environment: DockerEnvironment, ws: UUID) -> None:
    runtime = await environment.open()
    for op_seq in range(1, 6):
        await runtime.provision(ws, token=FencingToken(op_seq, 1))
    volumes = environment.api.listed("volumes", f"{INSTALLATION}={environment.installation_id()}")
    assert sorted(each["Labels"]["codehub.role"] for each in volumes) == ["fence", "home", "marker"]


async def test_tokens_are_forgotten_once_they_protect_nothing(
    environment: DockerEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = await environment.open()
    kept, gone = uuid4(), uuid4()
    for each in (kept, gone):
        await runtime.provision(each, token=FIRST)
    await runtime.provision(kept, token=SECOND)  # a home carries the token it was made with; this is newer
    await runtime.delete_volume(gone, token=SECOND)
    monkeypatch.setattr(fences, "KEPT", timedelta(0))
    await runtime._fences.sweep()
    left = environment.api.listed(
        "volumes", f"{INSTALLATION}={environment.installation_id()}", "codehub.role=fence"
    )
    assert [each["Labels"]["codehub.workspace"] for each in left] == [str(kept)]


async def test_the_tokens_of_deleted_workspaces_go_by_themselves(
    environment: DockerEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many were made and deleted: what is left of them is bounded by time."""
    monkeypatch.setattr(fences, "KEPT", timedelta(seconds=1))  # the engine's clock stamps whole seconds
    monkeypatch.setattr(fences, "SWEEP_EVERY", timedelta(seconds=0.2))
    runtime = await environment.open()
    kept = uuid4()
    await runtime.provision(kept, token=FIRST)
    await runtime.provision(kept, token=SECOND)  # newer than the token its home carries
    for _ in range(12):
        gone = uuid4()
        await runtime.provision(gone, token=FIRST)
        await runtime.delete_volume(gone, token=SECOND)

    async def are_gone() -> bool:
        label = f"{INSTALLATION}={environment.installation_id()}"
        left = environment.api.listed("volumes", label, "codehub.role=fence")
        return {each["Labels"]["codehub.workspace"] for each in left} == {str(kept)}

    await until(are_gone, what="the tokens of what was deleted to go")


def test_tokens_are_kept_longer_than_any_call_lasts() -> None:
    settings = DockerSettings()
    assert timedelta(seconds=2 * settings.call_seconds) < fences.KEPT <= timedelta(minutes=10)


async def test_a_network_removed_by_somebody_is_made_again(environment: DockerEnvironment) -> None:
    runtime = await environment.open()
    one, other = uuid4(), uuid4()
    await bring_up(environment, runtime, one)
    await runtime.stop(one, token=FIRST)
    for network in environment.api.listed("networks", f"{INSTALLATION}={environment.installation_id()}"):
        environment.api.call("DELETE", f"/networks/{network['Id']}")
    await bring_up(environment, runtime, other)


async def test_several_codehubs_make_one_network(environment: DockerEnvironment) -> None:
    runtimes = [await environment.open() for _ in range(4)]
    await asyncio.gather(*(bring_up(environment, runtime, uuid4()) for runtime in runtimes))
    assert len(environment.api.listed("networks", f"{INSTALLATION}={environment.installation_id()}")) == 1
