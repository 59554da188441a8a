"""Workspaces mount ``inside`` from a volume that is filled once, complete, and removed when its version is unused."""

import asyncio
import hashlib
from datetime import timedelta
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from codehub.runtimes.docker import inside_volume
from codehub.runtimes.docker.engine import DockerEngine
from codehub.runtimes.docker.inside_volume import InsideVolume
from codehub.runtimes.docker.names import INSTALLATION, ROLE, ObjectRole
from tests.contract.exec_suite import said_by
from tests.contract.runtime_suite import FIRST, SECOND, start
from tests.support.docker_environment import DockerEnvironment
from tests.support.requirements import require_inside

pytestmark = pytest.mark.needs_docker

SUM = ["sh", "-c", "busybox sha256sum /.codehub/inside"]


@pytest.fixture(autouse=True)
def program() -> Path:
    return require_inside()


def volumes(environment: DockerEnvironment, role: ObjectRole) -> list[str]:
    ours = f"{INSTALLATION}={environment.installation_id()}"
    return [each["Name"] for each in environment.api.listed("volumes", ours, f"{ROLE}={role.value}")]


def filling(environment: DockerEnvironment) -> int:
    ours = f"{INSTALLATION}={environment.installation_id()}"
    return len(environment.api.listed("containers", ours, f"{ROLE}={ObjectRole.INSIDE_FILLING.value}"))


def mounted(environment: DockerEnvironment, ws: UUID) -> str:
    found = environment.api.container(f"ws-{ws}")
    assert found is not None
    (mount,) = [each for each in found["Mounts"] if each["Destination"] == "/.codehub"]
    assert mount["RW"] is False
    return str(mount["Name"])


def digest(program: Path) -> str:
    return hashlib.sha256(program.read_bytes()).hexdigest()


async def test_replicas_that_fill_it_at_once_use_one_copy(
    environment: DockerEnvironment, program: Path
) -> None:
    replicas = [await environment.open() for _ in range(4)]
    ids = [uuid4() for _ in replicas]

    async def begin(replica: int) -> None:
        await replicas[replica].provision(ids[replica], token=FIRST)
        await start(replicas[replica], ids[replica], image=environment.image)

    await asyncio.gather(*(begin(each) for each in range(len(replicas))))
    assert len({mounted(environment, ws) for ws in ids}) == 1
    assert len(volumes(environment, ObjectRole.INSIDE)) == 1
    assert len(volumes(environment, ObjectRole.INSIDE_RECORD)) == 1
    assert filling(environment) == 0
    for replica, ws in zip(replicas, ids, strict=True):
        ended, said = await said_by(replica, ws, SUM)
        assert (ended.code, said.split()[0]) == (0, digest(program))
        ended, _ = await said_by(replica, ws, ["sh", "-c", "echo x > /.codehub/inside"])
        assert ended.code != 0


class Killed(BaseException):
    """The process ends here: nothing after it is done."""


class DyingEngine(DockerEngine):
    """Ends in the middle of filling a copy, and cleans nothing up."""

    async def put_archive(self, container_id: str, path: str, tar: bytes) -> None:
        raise Killed

    async def remove_container(self, container_id: str) -> None:
        raise Killed


async def test_a_replica_that_dies_in_the_middle_leaves_nothing_that_is_mounted(
    environment: DockerEnvironment, program: Path, ws: UUID
) -> None:
    dying = DyingEngine(environment.engine_url, call_seconds=60)
    runtime = await environment.open()
    try:
        with pytest.raises(Killed):
            await InsideVolume(dying, environment.names()).get(environment.image)
    finally:
        await dying.close()
    (half,) = volumes(environment, ObjectRole.INSIDE)
    assert filling(environment) == 1
    await runtime.provision(ws, token=FIRST)
    await start(runtime, ws, image=environment.image)
    whole = mounted(environment, ws)
    assert whole != half
    assert (await said_by(runtime, ws, SUM))[1].split()[0] == digest(program)

    engine = DockerEngine(environment.engine_url, call_seconds=60)
    sweeper = InsideVolume(engine, environment.names())
    try:
        assert await sweeper.get(environment.image) == whole
        await sweeper.sweep()  # the leftovers are young: somebody may be at it
        assert half in volumes(environment, ObjectRole.INSIDE)
        await InsideVolume(engine, environment.names(), kept=timedelta(days=-1)).sweep()
    finally:
        await engine.close()
    assert volumes(environment, ObjectRole.INSIDE) == [whole]
    assert filling(environment) == 0


async def test_a_copy_that_somebody_removed_is_made_again(
    environment: DockerEnvironment, program: Path, ws: UUID
) -> None:
    runtime = await environment.open()
    await runtime.provision(ws, token=FIRST)
    await start(runtime, ws, image=environment.image)
    removed = mounted(environment, ws)
    await runtime.stop(ws, token=SECOND)
    environment.api.call("DELETE", f"/volumes/{removed}")
    await start(runtime, ws, image=environment.image, token=SECOND)
    assert mounted(environment, ws) != removed
    assert (await said_by(runtime, ws, SUM))[1].split()[0] == digest(program)
    assert removed not in [each["Name"] for each in environment.api.call("GET", "/volumes")["Volumes"]]


async def test_a_version_is_removed_when_nobody_mounts_it(
    environment: DockerEnvironment, ws: UUID, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = await environment.open()
    await old.provision(ws, token=FIRST)
    await start(old, ws, image=environment.image)
    before = mounted(environment, ws)

    (tmp_path / "newer").mkdir()
    (tmp_path / "newer" / "inside").write_bytes(b"another version")
    monkeypatch.setattr(inside_volume, "find_inside", lambda _: tmp_path / "newer")
    engine = DockerEngine(environment.engine_url, call_seconds=60)
    newer = InsideVolume(engine, environment.names(), kept=timedelta(days=-1))
    try:
        after = await newer.get(environment.image)
        await newer.sweep()
        assert {before, after} == set(volumes(environment, ObjectRole.INSIDE))  # the first is mounted
        await old.stop(ws, token=SECOND)
        await newer.sweep()
        assert volumes(environment, ObjectRole.INSIDE) == [after]
        assert len(volumes(environment, ObjectRole.INSIDE_RECORD)) == 1
        assert await newer.get(environment.image) == after
    finally:
        await engine.close()
