"""Returning to an earlier archive with real processes: every file, either way, and a leader that is killed."""

import os
from pathlib import Path
from uuid import UUID

import pytest

from codehub.archives.keys import parse_archive_key
from codehub.domain.generations import ChosenArchive
from codehub.domain.limits import RunningLimits
from codehub.domain.states import ObservedStatus
from codehub.services import generations
from codehub.services.actors import Actor
from tests.integration.control.test_two_replicas import Pair, pair, settled
from tests.integration.control.test_walk import read_home, write_home
from tests.support.control import ControlEnvironment
from tests.support.waiting import until

__all__ = ["pair"]

ADMIN = Actor("user:admin", is_admin=True)


async def return_to(environment: ControlEnvironment, workspace_id: UUID, key: str) -> None:
    path = parse_archive_key(key)
    assert path is not None
    meta = await environment.archives().read_meta(key)
    chosen = ChosenArchive(key, meta.created_at, meta.sha256)
    async with environment.sessions.begin() as session:
        await generations.restore(
            session, workspace_id, chosen, actor=ADMIN, limits=RunningLimits(per_user=100)
        )


async def a_home_with_a_past(environment: ControlEnvironment) -> tuple[UUID, str, dict[str, bytes]]:
    """Running, with one file more than its archive has: id, key of that archive, and what is in it."""
    workspace_id = await environment.create()
    await environment.until_status(workspace_id, "running")
    kept = write_home(environment.home(workspace_id))
    await environment.intent(workspace_id, "archive")
    archived = await environment.until_status(workspace_id, "archived")
    assert archived.archive_key is not None
    await environment.intent(workspace_id, "start")
    await environment.until_status(workspace_id, "running")
    (environment.home(workspace_id) / "newer").write_bytes(b"written since")
    return workspace_id, archived.archive_key, kept


async def until_returned(environment: ControlEnvironment, workspace_id: UUID, key: str) -> None:
    async def there() -> bool:
        ws = await environment.view(workspace_id)
        return ws.restore_from is None and ws.archive_key == key

    await until(there, seconds=120, what="the chosen archive to be the home")
    await settled(environment, workspace_id, ObservedStatus.RUNNING)


async def assert_there_and_back(
    environment: ControlEnvironment, workspace_id: UUID, key: str, kept: dict[str, bytes]
) -> None:
    """It returned to ``key``; what was left is in one archive, and can be returned to."""
    assert read_home(environment.home(workspace_id)) == kept
    ws = await environment.view(workspace_id)
    assert (ws.archive_key, ws.error_info) == (key, None)
    committed = {each.path.key for each in await environment.archives().find_committed(workspace_id)}
    (left,) = committed - {key}
    assert {each.archive_key: each.left for each in ws.home.generations}[left] == 0
    await return_to(environment, workspace_id, left)
    await until_returned(environment, workspace_id, left)
    assert read_home(environment.home(workspace_id)) == {**kept, "newer": b"written since"}


async def test_there_and_back(environment: ControlEnvironment) -> None:
    async with environment.replica():
        workspace_id, key, kept = await a_home_with_a_past(environment)
        await return_to(environment, workspace_id, key)
        await until_returned(environment, workspace_id, key)
        await assert_there_and_back(environment, workspace_id, key, kept)


async def test_a_home_that_cannot_be_archived_stays_and_runs_again(environment: ControlEnvironment) -> None:
    async with environment.replica():
        workspace_id, key, _ = await a_home_with_a_past(environment)
        before = read_home(environment.home(workspace_id))
        too_deep(environment.home(workspace_id))
        await return_to(environment, workspace_id, key)

        async def given_up() -> bool:
            ws = await environment.view(workspace_id)
            return ws.restore_from is None and ws.home.return_given_up is not None

        await until(given_up, seconds=120, what="the return to be given up")
        await settled(environment, workspace_id, ObservedStatus.RUNNING)
        ws = await environment.view(workspace_id)
        assert ws.archive_key == key
        assert ws.home.return_given_up is not None
        assert "returning to the earlier archive was given up" in ws.home.return_given_up
        assert (environment.home(workspace_id) / "newer").read_bytes() == before["newer"]


def too_deep(home: Path) -> None:
    """Folders deeper than a path may be long: tar could pack them and not unpack them."""
    descriptor = os.open(home, os.O_RDONLY)
    for _ in range(25):
        os.mkdir("d" * 200, dir_fd=descriptor)
        deeper = os.open("d" * 200, os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = deeper
    os.close(descriptor)


async def test_from_a_damaged_archive_to_an_older_one(environment: ControlEnvironment) -> None:
    async with environment.replica():
        workspace_id, older, kept = await a_home_with_a_past(environment)
        await environment.intent(workspace_id, "archive")
        damaged = (await environment.until_status(workspace_id, "archived")).archive_key
        assert damaged is not None
        stored = environment.data_dir / "archives" / damaged
        good = stored.read_bytes()
        stored.write_bytes(good[:-7] + bytes([good[-7] ^ 1]) + good[-6:])
        await environment.intent(workspace_id, "start")
        await environment.until_status(workspace_id, "error")
        await return_to(environment, workspace_id, older)
        await until_returned(environment, workspace_id, older)
        assert read_home(environment.home(workspace_id)) == kept
        ws = await environment.view(workspace_id)
        assert [each.archive_key for each in ws.home.generations if each.damaged] == [damaged]
        assert stored.exists()


@pytest.mark.parametrize(
    ("call", "when"),
    [
        ("stop", "after"),
        ("archive", "during"),
        ("archive", "after"),
        ("delete_volume", "before"),
        ("delete_volume", "after"),
        ("restore", "before"),
        ("restore", "during"),
    ],
)
async def test_the_leader_dies_on_the_way_and_the_other_finishes(
    environment: ControlEnvironment, pair: Pair, call: str, when: str
) -> None:
    async with environment.replica(keep_workspaces=True):
        workspace_id, key, kept = await a_home_with_a_past(environment)
    leader, heir = await pair.leader_and_heir(pause=(call, when))
    await return_to(environment, workspace_id, key)
    await leader.until_said("paused")
    leader.kill()
    await heir.until_said("leading")
    await until_returned(environment, workspace_id, key)
    await assert_there_and_back(environment, workspace_id, key, kept)
