"""The whole walk of a workspace, on the real thing."""

import os
from pathlib import Path
from typing import Any

from codehub.domain.states import ObservedStatus, Operation
from tests.integration.control.engines import on_both
from tests.support.control import ControlEnvironment
from tests.support.redis import RedisServer


def write_home(home: Path) -> dict[str, bytes]:
    (home / "src").mkdir()
    (home / "src" / "main.py").write_bytes(b"print('hello')\n")
    (home / ".config").write_bytes(os.urandom(100_000))
    (home / "link").symlink_to("/nowhere/at/all")
    (home / "empty").mkdir()
    return read_home(home)


def read_home(home: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(home)): path.read_bytes() if path.is_file() else os.readlink(path).encode()
        for path in sorted(home.rglob("*"))
        if path.is_symlink() or path.is_file()
    }


def steps(history: list[Any]) -> list[str]:
    """The operations in the order in which they began."""
    return [
        event.changes["operation"][1]
        for event in history
        if "operation" in event.changes and event.changes["operation"][1] != "NONE"
    ]


async def walk(environment: ControlEnvironment) -> None:
    workspace_id = await environment.create()
    await environment.until_status(workspace_id, "running")
    kept = write_home(environment.home(workspace_id))

    await environment.intent(workspace_id, "stop")
    await environment.until_status(workspace_id, "standby")
    assert read_home(environment.home(workspace_id)) == kept

    await environment.intent(workspace_id, "archive")
    archived = await environment.until_status(workspace_id, "archived")
    assert not environment.home(workspace_id).exists()
    assert archived.archive_key is not None

    await environment.intent(workspace_id, "start")
    running = await environment.until_status(workspace_id, "running")
    assert read_home(environment.home(workspace_id)) == kept
    assert (environment.home(workspace_id) / "empty").is_dir()
    assert running.operation is Operation.NONE

    history = await environment.history(workspace_id)
    assert steps(history) == [
        "PROVISIONING",
        "STARTING",
        "STOPPING",
        "ARCHIVING",
        "RESTORING",
        "STARTING",
    ]
    seen = [event.changes["observed_status"][1] for event in history if "observed_status" in event.changes]
    assert seen == ["PENDING", "STANDBY", "RUNNING", "STANDBY", "PENDING", "STANDBY", "RUNNING"]
    assert [event.version for event in history] == sorted({event.version for event in history})


@on_both
async def test_every_byte_comes_back_through_sleep_and_archive(environment: ControlEnvironment) -> None:
    async with environment.replica():
        await walk(environment)


@on_both
async def test_the_same_walk_by_polling_alone(
    environment: ControlEnvironment, redis_server: RedisServer
) -> None:
    redis_server.kill()
    try:
        async with environment.replica():
            await walk(environment)
    finally:
        redis_server.start()


async def test_a_completion_says_when_the_action_had_ended(environment: ControlEnvironment) -> None:
    async with environment.replica():
        workspace_id = await environment.create()
        await environment.until_status(workspace_id, "running")
        ws = await environment.view(workspace_id)
    assert ws.op_started_at is not None
    assert ws.op_acted_at is not None
    assert ws.observed_at is not None
    assert ws.op_started_at < ws.op_acted_at < ws.observed_at


async def test_a_running_workspace_is_archived_in_two_steps(environment: ControlEnvironment) -> None:
    async with environment.replica():
        workspace_id = await environment.create()
        await environment.until_status(workspace_id, "running")
        await environment.intent(workspace_id, "archive")
        await environment.until_status(workspace_id, "archived")
    assert steps(await environment.history(workspace_id)) == [
        "PROVISIONING",
        "STARTING",
        "STOPPING",
        "ARCHIVING",
    ]


@on_both
async def test_delete_removes_container_and_volume_at_once(environment: ControlEnvironment) -> None:
    async with environment.replica() as plane:
        workspace_id = await environment.create()
        await environment.until_status(workspace_id, "running")
        await environment.intent(workspace_id, "delete")
        gone = await environment.until_status(workspace_id, "deleted")
        assert gone.observed_status is ObservedStatus.DELETED
        assert not environment.home(workspace_id).exists()
        assert plane.loops["wc"].status.last_error is None
