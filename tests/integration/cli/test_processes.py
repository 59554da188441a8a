"""Detached processes and commands over a WebSocket, with the real program in a real workspace."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID

import pytest
from websockets.asyncio.client import ClientConnection, connect

from codehub.runtimes.process_list import find_jobs
from codehub.signals.activity import ActivityLog
from tests.integration.cli.environment import CliEnvironment, Person
from tests.integration.cli.test_inside import SECONDS, Api, api_of, is_gone
from tests.integration.cli.test_workspaces import create
from tests.support.requirements import require_inside
from tests.support.waiting import until

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
async def environment(quiet_environment: CliEnvironment) -> AsyncIterator[CliEnvironment]:
    require_inside()
    quiet_environment.with_ssh = True
    async with quiet_environment.serving(), quiet_environment.controlled():
        yield quiet_environment


@pytest.fixture
async def ann(environment: CliEnvironment) -> Person:
    return await environment.signed_in("ann")


@pytest.fixture
async def api(ann: Person) -> AsyncIterator[Api]:
    """Ann's workspace, which runs."""
    made = await create(ann, "thesis")
    assert (await ann.run("ws", "start", "thesis", "--wait")).code == 0
    async with api_of(ann, made["id"]) as api:
        yield api


@asynccontextmanager
async def command(api: Api, **body: object) -> AsyncIterator[ClientConnection]:
    server = str(api.client.base_url).rstrip("/").replace("http", "ws", 1)
    address = f"{server}/api/v1/workspaces/{api.workspace_id}/exec"
    headers = {"Authorization": api.client.headers["Authorization"]}
    async with connect(address, additional_headers=headers, proxy=None, max_size=None) as socket:
        await socket.send(json.dumps(body))
        yield socket


async def all_of(socket: ClientConnection) -> tuple[bytes, bytes, int, dict[str, object]]:
    """Output, errors, how much input was taken, and the end."""
    said, took = {1: b"", 2: b""}, 0
    async with asyncio.timeout(SECONDS):
        async for message in socket:
            if isinstance(message, bytes):
                said[message[0]] += message[1:]
                continue
            told = json.loads(message)
            took += told.get("took", 0)
            if "exit" in told:
                return said[1], said[2], took, told["exit"]
    raise AssertionError(f"cut: {socket.close_code} {socket.close_reason}")


async def test_commands_over_a_websocket(environment: CliEnvironment, api: Api) -> None:
    async with command(api, argv=["sh", "-c", "cat; echo done >&2; exit 3"]) as socket:
        for _ in range(4):
            await socket.send(b"x" * 60_000)
        await socket.send(json.dumps({"end_input": True}))
        out, errors, took, end = await all_of(socket)
    assert (out, errors, took) == (b"x" * 240_000, b"done\n", 240_000)
    assert end == {"code": 3, "timed_out": False, "message": ""}

    script = "stty size; read line; stty size; trap 'exit 9' USR1; echo ready; while :; do sleep 0.1; done"
    async with command(api, argv=["sh", "-c", script], tty={"columns": 91, "rows": 31}) as socket:
        await socket.send(json.dumps({"resize": [101, 41]}))
        await socket.send(b"go on\n")
        shown = b""
        while b"ready" not in shown:
            message = await socket.recv()
            shown += message[1:] if isinstance(message, bytes) else b""
        assert b"41 101" in shown
        await socket.send(json.dumps({"signal": "USR1"}))
        assert (await all_of(socket))[3]["code"] == 9
    async with command(api, argv=["sleep", "4101"], timeout_seconds=0.5) as socket:
        assert (await all_of(socket))[3]["timed_out"] is True
    assert await is_gone(api, "4101")
    async with command(api, argv=["sh", "-c", "setsid sleep 4102 & echo began; wait"]) as socket:
        assert await socket.recv() == b"\x01began\n"
        socket.transport.abort()  # no goodbye
    await until(lambda: is_gone(api, "4102"), seconds=SECONDS, what="the end of what was left")
    leases = ActivityLog(environment.link)

    async def none_is_left() -> bool:
        found = (await leases.read_many([UUID(api.workspace_id)]))[UUID(api.workspace_id)]
        return found.connections == 0

    await until(none_is_left, seconds=SECONDS, what="the lease's end")


async def test_a_detached_process_outlives_its_connection_and_the_api(
    environment: CliEnvironment, ann: Person, api: Api
) -> None:
    script = "echo began; echo oops >&2; setsid sleep 4103 & sleep 4104"
    started = await ann.run(
        "exec", "--detach", "-e", "X=1", "--cwd", "/tmp", "thesis", "--", "sh", "-c", script
    )
    assert started.code == 0, started.errors
    process_id = started.output.strip()

    async def has_begun() -> bool:
        return "began" in (await ann.run("ws", "process-logs", "thesis", process_id)).output

    await until(has_begun, seconds=SECONDS, what="its output")
    async with environment.serving():  # a second API, at the same address
        listed = json.loads((await ann.run("ws", "processes", "thesis", "--json")).output)["items"]
    assert [(each["id"], each["ended_at"]) for each in listed] == [(process_id, None)]
    assert process_id in (await ann.run("ws", "processes", "thesis")).output
    runtime = await environment.control.runtime()
    jobs = find_jobs(await runtime.processes(UUID(api.workspace_id)))
    assert [each.pid for each in jobs], "it is work, which keeps the workspace awake for a while"
    await runtime.close()

    following = asyncio.create_task(ann.run("ws", "process-logs", "thesis", process_id, "--follow"))
    assert (await ann.run("ws", "process-kill", "thesis", process_id)).code == 0
    followed = await following
    assert (followed.code, followed.output, followed.errors) == (143, "began\n", "oops\n")
    assert await is_gone(api, "4103"), "and what it started"
    assert await is_gone(api, "4104")
    missing = await ann.run("ws", "process-kill", "thesis", "0" * 12)
    assert (missing.code, "no such process" in missing.errors) == (4, True)
    unknown = await ann.run("exec", "-d", "thesis", "--", "no-such-program")
    assert (unknown.code, "no-such-program" in unknown.errors) == (2, True)


async def test_a_detached_process_ends_with_the_workspace(ann: Person, api: Api) -> None:
    started = await api.call("POST", "/processes", expect=201, json={"argv": ["sleep", "4105"]})
    assert started.json()["ended_at"] is None
    assert (await ann.run("ws", "stop", "thesis", "--wait")).code == 0
    await api.call("GET", "/processes", expect=409)
    assert (await ann.run("ws", "start", "thesis", "--wait")).code == 0
    assert (await api.call("GET", "/processes")).json() == {"items": []}
    assert await is_gone(api, "4105")
