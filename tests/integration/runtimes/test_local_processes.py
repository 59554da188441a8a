"""What is particular to processes: families, records, environments, a full disk, a real IDE."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import UUID, uuid4

import httpx
import pytest

from codehub.domain.errors import EffectError, FailureCode
from codehub.domain.states import ContainerState
from codehub.runtimes.base import Endpoint, FencingToken, ResourceLimits, Sighting, UnixSocket
from codehub.runtimes.local import LocalRuntime, default_images
from codehub.runtimes.local.listeners import socket_inodes
from codehub.runtimes.local.locks import open_lock, try_lock
from codehub.runtimes.local.processes import ProcessIdentity, boot_id, find_stat, members
from codehub.runtimes.local.records import find_record, record_head
from codehub.runtimes.local.sandbox import find_bubblewrap
from codehub.runtimes.local.spawn import SHIM_FAILED, WORKSPACE_VARIABLE, spawn_workspace
from tests.support.local_environment import LocalEnvironment
from tests.support.waiting import until

TOKEN = FencingToken(1, 1)
SANDBOXES = [False, True] if find_bubblewrap() else [False]
NOBODY = ProcessIdentity(pid=0, start_ticks=0, boot_id=boot_id())


@pytest.fixture
async def environment(tmp_path: Path) -> AsyncIterator[LocalEnvironment]:
    environment = LocalEnvironment(tmp_path)
    yield environment
    await environment.close()


@pytest.fixture
async def runtime(environment: LocalEnvironment) -> LocalRuntime:
    return await environment.open()


async def bring_up(runtime: LocalRuntime, image: str, *, env: dict[str, str] | None = None) -> UUID:
    workspace_id = uuid4()
    await runtime.provision(workspace_id, token=TOKEN)
    await runtime.start(workspace_id, token=TOKEN, image_ref=image, env=env or {}, limits=ResourceLimits())
    return workspace_id


def marked(workspace_id: UUID) -> set[int]:
    return {stat.pid for stat in members(NOBODY, f"{WORKSPACE_VARIABLE}={workspace_id}")}


def fetch(endpoint: Endpoint, path: str) -> str:
    """What it answers; nothing while it does not."""
    uds, host = (endpoint.path, "ide") if isinstance(endpoint, UnixSocket) else (None, f"{endpoint.host}")
    port = "" if isinstance(endpoint, UnixSocket) else f":{endpoint.port}"
    try:
        with httpx.Client(transport=httpx.HTTPTransport(uds=uds), timeout=10) as client:
            return client.get(f"http://{host}{port}{path}").raise_for_status().text
    except httpx.HTTPError:
        return ""


async def get(runtime: LocalRuntime, workspace_id: UUID, path: str = "/") -> str:
    address = await runtime.address(workspace_id)
    assert address is not None
    return await until(lambda: asyncio.to_thread(fetch, address, path), seconds=60, what=path)


async def test_the_environment_holds_what_was_given_and_no_secret(
    environment: LocalEnvironment, runtime: LocalRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://secret")
    workspace_id = await bring_up(runtime, "tiny", env={"GREETING": "hello"})
    variables = (await get(runtime, workspace_id)).splitlines()
    assert "GREETING=hello" in variables
    assert f"HOME={environment.layout().volume(workspace_id)}" in variables
    assert "secret" not in str(variables)


async def test_no_descriptor_of_codehub_reaches_the_workspace(
    environment: LocalEnvironment, runtime: LocalRuntime
) -> None:
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)  # as a careless library would
    try:
        workspace_id = await bring_up(runtime, "tiny")
        record = find_record(environment.layout().process(workspace_id))
        assert record is not None
        targets = {os.readlink(entry.path) for entry in os.scandir(f"/proc/{record.identity.pid}/fd")}
    finally:
        os.close(reader)
        os.close(writer)
    own = {"/dev/null", str(environment.layout().output(workspace_id))}
    assert {target for target in targets if not target.startswith("socket:")} == own


async def test_stop_ends_children_and_those_who_left_the_session(runtime: LocalRuntime) -> None:
    workspace_id = await bring_up(runtime, "family")
    assert len(marked(workspace_id)) == 3
    await runtime.stop(workspace_id, token=TOKEN)
    assert not marked(workspace_id)


async def test_a_dead_leader_leaves_no_family_behind(
    environment: LocalEnvironment, runtime: LocalRuntime
) -> None:
    workspace_id = await bring_up(runtime, "family")
    await environment.kill_container(workspace_id)
    left = marked(workspace_id)
    assert left
    await runtime.start(workspace_id, token=TOKEN, image_ref="tiny", env={}, limits=ResourceLimits())
    assert not left & marked(workspace_id)


async def test_one_that_ignores_sigterm_is_killed(runtime: LocalRuntime) -> None:
    workspace_id = await bring_up(runtime, "stubborn")
    await runtime.stop(workspace_id, token=TOKEN)
    assert not marked(workspace_id)


async def test_a_death_is_heard_of_also_by_a_codehub_that_is_not_the_parent(
    environment: LocalEnvironment, runtime: LocalRuntime
) -> None:
    workspace_id = await bring_up(runtime, "tiny")
    heard: asyncio.Queue[UUID] = asyncio.Queue()
    other = await environment.open(on_exit=heard.put_nowait)
    await other.observe()
    await environment.kill_container(workspace_id)
    assert await asyncio.wait_for(heard.get(), 20) == workspace_id


async def test_stop_all_ends_everything_and_keeps_homes_and_tokens(runtime: LocalRuntime) -> None:
    several = [await bring_up(runtime, "tiny") for _ in range(3)]
    await runtime.stop_all()
    seen = (await runtime.observe()).sightings
    assert seen == dict.fromkeys(several, Sighting(volume=True))
    with pytest.raises(EffectError) as caught:
        await runtime.provision(several[0], token=FencingToken(0, 9))
    assert caught.value.failure is FailureCode.STALE_TOKEN


async def test_a_stranger_with_the_recorded_pid_is_neither_seen_nor_hit(
    environment: LocalEnvironment, runtime: LocalRuntime
) -> None:
    workspace_id = await bring_up(runtime, "tiny")
    await runtime.stop(workspace_id, token=TOKEN)
    stranger = await asyncio.create_subprocess_exec("sleep", "1000", start_new_session=True)
    try:
        stat = find_stat(stranger.pid)
        assert stat is not None
        record: dict[str, object] = {"pid": stranger.pid, "start_ticks": stat.start_ticks - 1}
        record |= {"boot_id": boot_id(), "op_seq": 1, "epoch": 1, "port": 1}
        environment.layout().process(workspace_id).write_text(json.dumps(record))
        seen = (await runtime.observe()).sightings[workspace_id]
        assert seen == Sighting(container=ContainerState.DEAD, volume=True)
        await runtime.stop(workspace_id, token=TOKEN)
        still = find_stat(stranger.pid)
        assert still is not None
        assert still.is_alive
    finally:
        stranger.kill()
        await stranger.wait()


async def test_an_unreadable_record_is_no_observation_and_stop_repairs_it(
    environment: LocalEnvironment, runtime: LocalRuntime
) -> None:
    workspace_id = await bring_up(runtime, "family")
    other = await bring_up(runtime, "tiny")
    environment.layout().process(workspace_id).write_text("{")
    for seen in (await runtime.observe(), await runtime.observe([workspace_id, other])):
        assert seen.unreadable == {workspace_id}
        assert set(seen.sightings) == {other}
    await runtime.stop(workspace_id, token=TOKEN)
    assert not marked(workspace_id)
    assert (await runtime.observe()).sightings[workspace_id] == Sighting(volume=True)


async def test_a_file_in_the_place_of_a_home_is_unreadable(
    environment: LocalEnvironment, runtime: LocalRuntime
) -> None:
    workspace_id = uuid4()
    environment.layout().volume(workspace_id).write_text("not a directory")
    assert (await runtime.observe()).unreadable == {workspace_id}
    assert (await runtime.observe([workspace_id])).unreadable == {workspace_id}
    with pytest.raises(EffectError) as caught:
        await runtime.provision(workspace_id, token=TOKEN)
    assert caught.value.failure is FailureCode.VOLUME_CREATE_FAILED


def test_what_cannot_be_recorded_does_not_run(tmp_path: Path) -> None:
    lock_fd = open_lock(tmp_path / "lock")
    try:
        child = spawn_workspace(
            ["/bin/sh", "-c", "echo ran > ran"],
            record=Path("/dev/full"),
            head="}",
            lock_fd=lock_fd,
            output=tmp_path / "output.log",
            home=tmp_path,
            env={"PATH": os.environ["PATH"]},
        )
    finally:
        os.close(lock_fd)
    assert child.wait() == SHIM_FAILED
    assert not (tmp_path / "ran").exists()


async def test_the_lock_is_held_until_the_process_has_recorded_itself(tmp_path: Path) -> None:
    """The shim is caught between fork and record: writing into a pipe, it waits for a reader."""
    record = tmp_path / "record"
    os.mkfifo(record)
    ours = open_lock(tmp_path / "lock")
    assert try_lock(ours)
    child = spawn_workspace(
        ["sleep", "1000"],
        record=record,
        head=record_head(token=TOKEN, port=1, boot=boot_id()),
        lock_fd=ours,
        output=tmp_path / "output.log",
        home=tmp_path,
        env={"PATH": os.environ["PATH"]},
    )
    os.close(ours)  # CodeHub is killed here
    successor = open_lock(tmp_path / "lock")
    try:
        assert not try_lock(successor)
        written = json.loads(await asyncio.to_thread(record.read_text))

        async def is_free() -> bool:
            return try_lock(successor)

        await until(is_free, what="lock")
        stat = find_stat(child.pid)
        assert stat is not None
        assert (written["pid"], written["start_ticks"]) == (child.pid, stat.start_ticks)
        assert child.poll() is None
    finally:
        os.close(successor)
        child.kill()
        child.wait()


async def test_a_port_stays_with_its_workspace_while_others_come_and_go(runtime: LocalRuntime) -> None:
    workspace_id = await bring_up(runtime, "tiny")
    address = await runtime.address(workspace_id)
    await runtime.stop(workspace_id, token=TOKEN)
    others = [await bring_up(runtime, "tiny") for _ in range(3)]
    assert address not in [await runtime.address(other) for other in others]
    await runtime.start(workspace_id, token=TOKEN, image_ref="tiny", env={}, limits=ResourceLimits())
    assert await runtime.address(workspace_id) == address


async def test_a_home_with_locked_directories_leaves_the_disk(
    environment: LocalEnvironment, runtime: LocalRuntime
) -> None:
    workspace_id = uuid4()
    await runtime.provision(workspace_id, token=TOKEN)
    locked = environment.layout().volume(workspace_id) / "a" / "b"
    locked.mkdir(parents=True)
    (locked / "file").write_text("x")
    locked.chmod(0o000)
    locked.parent.chmod(0o500)
    await runtime.delete_volume(workspace_id, token=TOKEN)
    assert (await runtime.observe()).sightings == {}

    async def is_empty() -> bool:
        return not os.listdir(environment.layout().trash)

    await until(is_empty, what="empty trash")


async def test_trash_left_by_a_crash_is_emptied_by_the_next(
    environment: LocalEnvironment, runtime: LocalRuntime
) -> None:
    discarded = environment.root / "discarded"
    discarded.mkdir()
    (discarded / "file").write_text("x")
    left = discarded.rename(environment.layout().trash / "left")
    await environment.open()

    async def is_empty() -> bool:
        return not left.exists()

    await until(is_empty, what="empty trash")


async def test_a_disk_that_is_not_ours_is_left_alone(
    environment: LocalEnvironment, runtime: LocalRuntime
) -> None:
    (environment.layout().volumes / ".installation").write_text("theirs\n")
    for call in (runtime.provision(uuid4(), token=TOKEN), runtime.observe(), runtime.probe()):
        with pytest.raises(EffectError) as caught:
            await call
        assert caught.value.failure is FailureCode.LOCAL_RUNTIME_ERROR
    (environment.layout().volumes / ".installation").write_text("one\n")


@pytest.mark.parametrize("use_bubblewrap", SANDBOXES)
async def test_other_homes_are_out_of_sight_where_bubblewrap_works(
    tmp_path: Path, use_bubblewrap: bool
) -> None:
    environment = LocalEnvironment(tmp_path, use_bubblewrap=use_bubblewrap)
    runtime = await environment.open()
    assert runtime.is_sandboxed is use_bubblewrap
    try:
        first, second = [await bring_up(runtime, "tiny") for _ in range(2)]
        inside = [pid for pid in marked(first) if not is_bubblewrap(pid)]
        assert inside
        seen = {
            name for pid in inside for name in os.listdir(f"/proc/{pid}/root{environment.layout().volumes}")
        }
        assert f"ws-{first}-home" in seen
        assert (f"ws-{second}-home" in seen) is not use_bubblewrap
    finally:
        await environment.close()
    assert not marked(first)


def is_bubblewrap(pid: int) -> bool:
    return Path(f"/proc/{pid}/comm").read_text().strip() == "bwrap"


@pytest.mark.parametrize("use_bubblewrap", SANDBOXES)
async def test_jupyterlab_runs_below_its_path(tmp_path: Path, use_bubblewrap: bool) -> None:
    images = default_images()
    runtime = LocalRuntime(
        *(tmp_path, "one", images),
        job_command=["false"],
        archive_url="file:///nowhere",
        use_bubblewrap=use_bubblewrap,
    )
    await runtime.prepare()
    workspace_id = await bring_up(runtime, "jupyterlab")
    try:
        assert runtime.uses_base_path("jupyterlab")
        assert "version" in await get(runtime, workspace_id, f"/w/{workspace_id}/api")
        assert "jupyter-config-data" in await get(runtime, workspace_id, f"/w/{workspace_id}/lab")
        family = members(NOBODY, f"{WORKSPACE_VARIABLE}={workspace_id}")
        assert not listening_ports(socket_inodes(family)), "nothing another user could connect to"
    finally:
        await runtime.stop_all()
        await runtime.close()
    assert not marked(workspace_id)


def listening_ports(inodes: set[int]) -> list[str]:
    """Addresses, as the kernel writes them, at which one of these sockets listens."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return [fields[1] for fields in lines if fields[3] == "0A" and int(fields[9]) in inodes]
