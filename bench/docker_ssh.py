"""SSH and commands in workspaces on Docker, beside what the engine itself takes.

``from standby``: OpenSSH's own client through the gateway, from its start to the first line of a shell in a workspace
that slept; beside it the engine's calls that start the same container. ``true``: one command by the API, beside the
engine's own exec.
"""

import time
from collections.abc import Mapping
from pathlib import Path
from uuid import UUID, uuid4

from tests.support.ports import free_port

from bench.codehub_side import CodeHub
from bench.docker_starts import Bare, both, delete_workspace, new_workspace, stop_workspace
from bench.runner import Bar, Measure, Report, take_turns
from bench.ssh_side import HOST, through_gateway

NAME = "sleeper"
OURS, ENGINE = "ssh from standby", "engine start"


async def docker_ssh(directory: Path, *, rounds: int) -> Report:
    """Wake by SSH, and run one command."""
    report = Report(
        "docker-ssh",
        "Docker: SSH from standby, and one command (seconds)",
        bars=[
            Bar("seconds", "ssh beyond the engine", at_most=1.0, every_round=True),
            Bar("seconds", "true beyond the engine", at_most=0.05),
        ],
    )
    async with both(directory, CODEHUB_SSH_BIND=f"127.0.0.1:{free_port()}") as (hub, seen, bare):
        workspace_id = await new_workspace(hub, seen)
        (await hub.client.patch(f"/api/v1/workspaces/{workspace_id}", json={"name": NAME})).raise_for_status()
        client = await through_gateway(hub, directory / "jump", NAME)
        home = uuid4()
        await bare.create_volume(home)

        async def from_standby() -> Mapping[str, float]:
            await stop_workspace(hub, seen, workspace_id)
            began = time.perf_counter()
            assert await client.run("ssh", HOST, "echo ready") == b"ready\n"
            return {"seconds": time.perf_counter() - began}

        async def engine_start() -> Mapping[str, float]:
            began = time.perf_counter()
            await bare.start(home)
            took = time.perf_counter() - began
            await bare.end(home)
            return {"seconds": took}

        sides: dict[str, Measure] = {
            OURS: from_standby,
            ENGINE: engine_start,
            "true by the API": lambda: _by_api(hub, workspace_id),
            "true by the engine": lambda: _by_engine(bare, UUID(workspace_id)),
        }
        for side in sides.values():
            await side()
        await take_turns(report, sides, rounds=rounds)
        engine, raw = (
            report.median(ENGINE, "seconds") or 0.0,
            report.median("true by the engine", "seconds") or 0.0,
        )
        for value in report.values[OURS]["seconds"]:
            report.add("ssh beyond the engine", {"seconds": value - engine})
        for value in report.values["true by the API"]["seconds"]:
            report.add("true beyond the engine", {"seconds": value - raw})
        await bare.remove(home)
        await delete_workspace(hub, seen, workspace_id)
    return report


async def _by_api(hub: CodeHub, workspace_id: str) -> Mapping[str, float]:
    began = time.perf_counter()
    answer = await hub.client.post(f"/api/v1/workspaces/{workspace_id}/exec", json={"argv": ["true"]})
    took = time.perf_counter() - began
    assert "exit" in answer.raise_for_status().text
    return {"seconds": took}


async def _by_engine(bare: Bare, workspace_id: UUID) -> Mapping[str, float]:
    container = bare.names.container(workspace_id)
    began = time.perf_counter()
    exec_id = await bare.engine.create_exec(container, ["true"], env={}, cwd=None, tty=False)
    connection = await bare.engine.start_exec(exec_id, tty=False)
    while await connection.read() is not None:
        pass
    await bare.engine.exec_state(exec_id)
    took = time.perf_counter() - began
    connection.abort()
    return {"seconds": took}
