"""Snapshots and copies with real processes, in both formats: every file, and a leader that is killed."""

from pathlib import Path
from uuid import UUID

import pytest

from codehub.domain.generations import ChosenArchive
from codehub.domain.limits import RunningLimits
from codehub.domain.states import ObservedStatus, Operation
from codehub.services import copies, snapshots, workspaces
from codehub.services.actors import Actor
from codehub.services.workspaces import WorkspaceValues
from tests.integration.control.test_returns import too_deep
from tests.integration.control.test_two_replicas import Pair, pair, settled
from tests.integration.control.test_walk import read_home, write_home
from tests.support.control import ControlEnvironment, fast_settings
from tests.support.waiting import until

__all__ = ["pair"]

ADMIN = Actor("user:admin", is_admin=True)
LIMITS = RunningLimits(per_user=100)


async def asleep(environment: ControlEnvironment) -> tuple[UUID, dict[str, bytes]]:
    workspace_id = await environment.create()
    await environment.until_status(workspace_id, "running")
    kept = write_home(environment.home(workspace_id))
    await environment.intent(workspace_id, "stop")
    await environment.until_status(workspace_id, "standby")
    return workspace_id, kept


async def take(environment: ControlEnvironment, workspace_id: UUID) -> None:
    async with environment.sessions.begin() as session:
        await snapshots.take(session, workspace_id, "before the upgrade", actor=ADMIN)


async def until_taken(environment: ControlEnvironment, workspace_id: UUID) -> str:
    async def taken() -> bool:
        ws = await environment.view(workspace_id)
        return bool(ws.snapshots) and ws.operation is Operation.NONE

    await until(taken, seconds=120, what="the snapshot")
    ws = await environment.view(workspace_id)
    (snapshot,) = ws.snapshots
    assert (ws.snapshot_as, ws.error_info, ws.archive_key) == (None, None, snapshot.archive_key)
    assert (snapshot.name, snapshot.sha256) == ("before the upgrade", ws.archive_sha256)
    return snapshot.archive_key


async def copy_of(environment: ControlEnvironment, workspace_id: UUID, key: str) -> UUID:
    meta = await environment.archives().read_meta(key)
    image = (await environment.view(workspace_id)).image_ref
    new = WorkspaceValues(name=f"copy of {key[-40:]}"[:60], image_ref=image, start=True)
    async with environment.sessions.begin() as session:
        archive = ChosenArchive(key, meta.created_at, meta.sha256)
        made = await copies.copy(session, workspace_id, archive, new, actor=ADMIN, limits=LIMITS)
    return made.view.id


async def assert_copies_work(
    environment: ControlEnvironment, workspace_id: UUID, key: str, kept: dict[str, bytes]
) -> None:
    """A copy has every file, is archived by itself, and outlives the deletion of its source."""
    copy_id = await copy_of(environment, workspace_id, key)
    await environment.until_status(copy_id, "running")
    assert read_home(environment.home(copy_id)) == kept
    (environment.home(copy_id) / "only in the copy").write_bytes(b"new")
    await environment.intent(copy_id, "archive")
    archived = await environment.until_status(copy_id, "archived")
    assert (archived.archive_key or "").startswith(f"{copy_id}/")
    async with environment.sessions.begin() as session:
        await workspaces.delete(session, workspace_id, actor=ADMIN)
    await environment.intent(copy_id, "start")
    await environment.until_status(copy_id, "running")
    assert read_home(environment.home(copy_id)) == {**kept, "only in the copy": b"new"}


@pytest.mark.parametrize("archive_format", ["1", "2"])
async def test_the_volume_stays_and_the_snapshot_is_copied(
    environment: ControlEnvironment, archive_format: str
) -> None:
    async with environment.replica(settings=fast_settings(ARCHIVE_FORMAT=archive_format)):
        workspace_id, kept = await asleep(environment)
        inode = environment.home(workspace_id).stat().st_ino
        await take(environment, workspace_id)
        key = await until_taken(environment, workspace_id)
        await settled(environment, workspace_id, ObservedStatus.STANDBY)
        assert environment.home(workspace_id).stat().st_ino == inode
        assert read_home(environment.home(workspace_id)) == kept
        await environment.intent(workspace_id, "start")
        await environment.until_status(workspace_id, "running")
        (environment.home(workspace_id) / "newer").write_bytes(b"written since")
        await environment.intent(workspace_id, "archive")
        await environment.until_status(workspace_id, "archived")
        await assert_copies_work(environment, workspace_id, key, kept)


@pytest.mark.parametrize(
    ("call", "when"), [("stop", "after"), ("archive", "before"), ("archive", "during"), ("archive", "after")]
)
async def test_the_leader_dies_while_a_snapshot_is_taken(
    environment: ControlEnvironment, pair: Pair, call: str, when: str
) -> None:
    async with environment.replica(keep_workspaces=True):
        workspace_id, kept = await asleep(environment)
    leader, heir = await pair.leader_and_heir(pause=(call, when))
    await take(environment, workspace_id)
    await leader.until_said("paused")
    leader.kill()
    await heir.until_said("leading")
    await until_taken(environment, workspace_id)
    await settled(environment, workspace_id, ObservedStatus.STANDBY)
    assert read_home(environment.home(workspace_id)) == kept
    assert len(await environment.archives().find_committed(workspace_id)) == 1


@pytest.mark.parametrize("when", ["before", "during"])
async def test_the_leader_dies_while_a_copy_is_restored(
    environment: ControlEnvironment, pair: Pair, when: str
) -> None:
    async with environment.replica(keep_workspaces=True):
        workspace_id, kept = await asleep(environment)
        await take(environment, workspace_id)
        key = await until_taken(environment, workspace_id)
    leader, heir = await pair.leader_and_heir(pause=("restore", when))
    copy_id = await copy_of(environment, workspace_id, key)
    await leader.until_said("paused")
    leader.kill()
    await heir.until_said("leading")
    await settled(environment, copy_id, ObservedStatus.RUNNING)
    assert read_home(environment.home(copy_id)) == kept


def rename_owner(meta: Path, workspace_id: UUID) -> None:
    meta.write_text(meta.read_text().replace(str(workspace_id), str(UUID(int=1))))


async def test_a_copy_is_not_restored_from_another_archive(environment: ControlEnvironment) -> None:
    """Somebody put another archive of the source in its place: refused, and nothing is restored."""
    async with environment.replica():
        workspace_id, _ = await asleep(environment)
        await take(environment, workspace_id)
        key = await until_taken(environment, workspace_id)
        stored = environment.data_dir / "archives" / key
        rename_owner(stored.with_name(f"{stored.name}.meta"), workspace_id)
        copy_id = await copy_of(environment, workspace_id, key)
        await environment.until_status(copy_id, "error")
        error = (await environment.view(copy_id)).error_info
        assert error is not None
        assert error.context["code"] == "ARCHIVE_MISMATCH"


async def test_a_home_that_cannot_be_archived_gives_the_snapshot_up(environment: ControlEnvironment) -> None:
    async with environment.replica():
        workspace_id, _ = await asleep(environment)
        too_deep(environment.home(workspace_id))
        await take(environment, workspace_id)

        async def given_up() -> bool:
            ws = await environment.view(workspace_id)
            return ws.snapshot_as is None and ws.error_info is not None

        await until(given_up, seconds=120, what="the snapshot to be given up")
        ws = await environment.view(workspace_id)
        assert ws.error_info is not None
        assert "the snapshot was given up" in ws.error_info.message
        assert (ws.snapshots, ws.observed_status) == ((), ObservedStatus.STANDBY)
