"""``kill -9`` in the middle of SSH sessions: the client is told, nothing runs on in the workspace, no lease is left."""

import asyncio
import json
import os
import secrets
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import redis.asyncio

from codehub.api.dependencies import SshGatewayAddress
from codehub.domain.ttl import LEASE_SECONDS
from tests.support.gateway import PlainSsh
from tests.support.instance import COMMAND, Instance, codehub_up, process_variables, proxy_pids
from tests.support.people import ECHO, QUICK, Person
from tests.support.ports import free_port
from tests.support.requirements import require_inside, require_program
from tests.support.ssh_shell import SshShell
from tests.support.waiting import until

SECONDS = 90.0

pytestmark = pytest.mark.timeout(600)


def running_with(mark: str) -> list[int]:
    """Processes of this machine that have the mark as a word of their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if words[:2] == [b"sleep", mark.encode()]:
                found.append(int(entry.name))
    return found


async def session(process: asyncio.subprocess.Process) -> asyncio.subprocess.Process:
    assert process.stdout is not None
    async with asyncio.timeout(SECONDS):
        assert await process.stdout.readline() == b"ready\n"
    return process


async def end_of(process: asyncio.subprocess.Process) -> tuple[int | None, str]:
    async with asyncio.timeout(SECONDS):
        _, errors = await process.communicate()
    return process.returncode, errors.decode()


async def until_gone(mark: str) -> None:
    async def gone() -> bool:
        return not running_with(mark)

    await until(gone, seconds=SECONDS, what=f"the end of sleep {mark}")


class Sessions:
    """One CodeHub, a workspace, and the two ways into it."""

    def __init__(self, instance: Instance, person: Person, directory: Path) -> None:
        self.instance = instance
        self.person = person
        self.shell = SshShell(directory / "shell")
        self.directory = directory
        self.plain: PlainSsh | None = None
        self.workspace_id = ""

    async def prepare(self) -> None:
        self.shell.directory.mkdir()
        self.workspace_id = await self.person.running("thesis")
        await self.shell.sign_in(self.instance.url)
        gateway = SshGatewayAddress(**(await self.person.api("GET", "/ssh-keys"))["gateway"])
        self.plain = await asyncio.to_thread(PlainSsh.create, self.directory / "plain", "admin", gateway)
        body = {"name": "laptop", "public_key": self.plain.public_key}
        await self.person.api("POST", "/ssh-keys", json=body)

    async def by_command(self, mark: str) -> asyncio.subprocess.Process:
        return await session(
            await asyncio.create_subprocess_exec(
                *(*COMMAND, "ssh", "thesis", f"echo ready; exec sleep {mark}"),
                env=process_variables(**self.shell.variables),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
        )

    async def by_gateway(self, mark: str) -> asyncio.subprocess.Process:
        assert self.plain is not None
        command = f"echo ready; exec sleep {mark}"
        return await session(await self.plain.start("ssh", *self.plain.jump(), "thesis", command))

    async def until_connections(self, count: int) -> None:
        async def counted() -> bool:
            return bool((await self.person.workspace(self.workspace_id))["activity"]["connections"] == count)

        await until(counted, seconds=SECONDS, what=f"{count} leases")


@pytest.fixture
def variables(empty_database_url: str, redis_url: str) -> dict[str, Any]:
    require_program("ssh", package="openssh-client")
    require_inside()
    return {
        **QUICK,
        "DATABASE_URL": empty_database_url,
        "REDIS_URL": redis_url,
        "LOCAL_IMAGES": json.dumps({"echo": ECHO}),
        "CODEHUB_SSH_BIND": f"127.0.0.1:{free_port()}",
    }


@pytest.fixture
async def killed_at_the_end() -> AsyncIterator[list[asyncio.subprocess.Process]]:
    """Clients that the test may not have ended."""
    clients: list[asyncio.subprocess.Process] = []
    yield clients
    for client in clients:
        if client.returncode is None:
            client.kill()
            await client.wait()


async def test_kill_9_of_the_proxy_and_of_the_api(
    tmp_path: Path,
    variables: dict[str, Any],
    redis_url: str,
    killed_at_the_end: list[asyncio.subprocess.Process],
) -> None:
    marks = [f"600.{secrets.randbelow(10**9):09}" for _ in range(2)]
    async with (
        codehub_up(tmp_path / "data", **variables) as instance,
        Person.admin(instance.url) as person,
    ):
        sessions = Sessions(instance, person, tmp_path)
        await sessions.prepare()
        by_command = await sessions.by_command(marks[0])
        by_gateway = await sessions.by_gateway(marks[1])
        killed_at_the_end += [by_command, by_gateway]
        await sessions.until_connections(2)

        [proxy] = proxy_pids(instance)
        os.kill(proxy, signal.SIGKILL)
        code, errors = await end_of(by_command)
        assert (code, "was lost" in errors) == (255, True), errors
        await until_gone(marks[0])
        await sessions.until_connections(1)
        assert by_gateway.returncode is None, "that way has no proxy"

        instance.process.kill()
        code, errors = await end_of(by_gateway)
        assert code == 255
        assert "closed" in errors.lower() or "reset" in errors.lower(), errors
        await until_gone(marks[1])
        async with redis.asyncio.from_url(redis_url) as client:
            left = await client.pttl(f"ws_conn:{sessions.workspace_id}")
        assert left <= LEASE_SECONDS * 1000, "it ends by itself"

    async with codehub_up(tmp_path / "data", **variables):
        assert sessions.plain is not None
        code, out, errors = await sessions.plain.run(*sessions.plain.jump(), "thesis", "echo again")
        assert (code, out) == (0, "again\n"), errors
