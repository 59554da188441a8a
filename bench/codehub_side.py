"""A real CodeHub to measure: ``codehub up`` in a directory of its own, signed in, with workspaces of ours."""

import asyncio
import contextlib
import json
import os
import re
import shlex
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from bench.client import Client
from bench.processes import PROGRAMS, command_line, running, tree
from codehub.server.data_dir import DataDir
from codehub.server.processes.embedded import postgres

PASSWORD = "a password for measuring"
SECONDS_TO_START = 90.0
_PYTHON = shlex.quote(sys.executable)

IMAGES = {
    "trivial": f"perl {PROGRAMS}/trivial_server.pl {{port}}",
    "echo": f"{_PYTHON} {PROGRAMS}/echo_server.py {{port}}",
    "nginx": f"{PROGRAMS}/nginx_server.sh {{port}} {{home}}",
    # As IDEs listen. The peers' proxies need a port.
    "echo-socket": f"{_PYTHON} {PROGRAMS}/echo_server.py {{socket}}",
    "nginx-socket": f"{PROGRAMS}/nginx_server.sh {{socket}} {{home}}",
}
NO_LIMITS = {"LIMITS_MAX_RUNNING_PER_USER": "100000", "LIMITS_MAX_RUNNING_GLOBAL": "100000"}
OURS = re.compile(
    r"^(CODEHUB_|COORDINATOR_|OBSERVER_|RECONCILER_|TTL_|GC_|LIMITS_|REDIS_|LOG_|LOCAL_IMAGES|DATABASE_URL|ARCHIVE_URL)"
)


def process_variables(data_dir: Path, *, bind: str = "127.0.0.1:0", **variables: str) -> dict[str, str]:
    inherited = {key: value for key, value in os.environ.items() if not OURS.match(key)}
    return {
        **inherited,
        "CODEHUB_DATA_DIR": str(data_dir),
        "CODEHUB_BIND": bind,
        "CODEHUB_ADMIN_PASSWORD": PASSWORD,
        "LOCAL_IMAGES": json.dumps(IMAGES),
        "LOG_LEVEL": "warning",
        "TTL_STANDBY_SECONDS": "0",
        **NO_LIMITS,
        **variables,
    }


@dataclass
class CodeHub:
    """One that runs, and its first user's session."""

    pid: int
    url: str
    data_dir: Path
    client: httpx.AsyncClient
    token: str
    quick: Client

    @property
    def database_url(self) -> str:
        return postgres.url(DataDir(self.data_dir))

    @property
    def cookie(self) -> str:
        return "; ".join(f"{name}={value}" for name, value in self.client.cookies.items())

    def pids(self) -> list[int]:
        """The control plane: server, proxy, Redis, PostgreSQL."""
        return tree([self.pid])

    def pids_without_database(self) -> list[int]:
        return [pid for pid in self.pids() if not is_postgres(pid)]

    def proxy_pids(self) -> list[int]:
        return [pid for pid in self.pids() if "codehub.server.proxy.process" in command_line(pid)]

    async def create(self, name: str, *, image: str = "trivial", start: bool = True) -> str:
        body = {"name": name, "image_ref": image, "start": start}
        answer = await self.quick.ask("POST", "/api/v1/workspaces", body)
        return str(answer.expect(201).json()["id"])

    async def ask(self, workspace_id: str, action: str) -> None:
        (await self.quick.ask("POST", f"/api/v1/workspaces/{workspace_id}/{action}")).expect(202)

    async def delete(self, workspace_id: str) -> None:
        (await self.quick.ask("DELETE", f"/api/v1/workspaces/{workspace_id}")).expect(202)

    async def answers(self, workspace_id: str) -> bool:
        return (await self.quick.ask("GET", f"/w/{workspace_id}/")).status == httpx.codes.OK


class Events:
    """My event stream, read in the background: the status of each workspace as it is told."""

    def __init__(self) -> None:
        self._statuses: dict[str, str] = {}
        self._waiting: dict[str, tuple[frozenset[str], asyncio.Future[None]]] = {}

    def told(self, workspace_id: str, status: str) -> None:
        self._statuses[workspace_id] = status
        statuses, future = self._waiting.get(workspace_id, (frozenset(), None))
        if future is not None and status in statuses and not future.done():
            future.set_result(None)

    async def until(self, workspace_id: str, *statuses: str) -> None:
        """One waits for each workspace at a time."""
        if self._statuses.get(workspace_id) not in statuses:
            future = asyncio.get_running_loop().create_future()
            self._waiting[workspace_id] = (frozenset(statuses), future)
            await future
            del self._waiting[workspace_id]


@contextlib.asynccontextmanager
async def events(hub: CodeHub) -> AsyncIterator[Events]:
    seen = Events()
    connected = asyncio.Event()

    async def read() -> None:
        async for line in hub.quick.lines("/api/v1/events"):
            connected.set()  # its first line is there: from here on nothing is missed
            if line.startswith(b"data:"):
                data = json.loads(line[5:])
                if isinstance(data, dict) and "id" in data and "status" in data:
                    seen.told(data["id"], data["status"])

    task = asyncio.create_task(read())
    await connected.wait()
    try:
        yield seen
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@contextlib.asynccontextmanager
async def codehub(
    directory: Path, *, python: str = sys.executable, **variables: str
) -> AsyncIterator[CodeHub]:
    """``python``: of the environment whose CodeHub is measured, for another version beside this one."""
    data_dir = directory / "codehub"
    log = directory / "codehub.log"
    command = (python, "-m", "codehub.cli.main", "up")
    async with running(command, log=log, env=process_variables(data_dir, **variables)) as process:
        url = await until_ready(process, log)
        async with httpx.AsyncClient(base_url=url, timeout=60.0, trust_env=False, limits=MANY) as client:
            token = await sign_in(client)
            cookie = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
            quick = Client(url, {"Origin": url, "Cookie": cookie})
            yield CodeHub(process.pid, url, data_dir, client, token, quick)
            await quick.close()


MANY = httpx.Limits(max_connections=200, max_keepalive_connections=200)


async def until_ready(process: asyncio.subprocess.Process, log: Path) -> str:
    async with asyncio.timeout(SECONDS_TO_START):
        while True:
            said = log.read_text(errors="replace")  # noqa: ASYNC240 - nothing else runs yet
            if found := re.search(r"CodeHub is ready: (http://\S+)", said):
                return found.group(1)
            if process.returncode is not None:
                raise RuntimeError(f"codehub ended:\n{said}")
            await asyncio.sleep(0.05)


async def sign_in(client: httpx.AsyncClient) -> str:
    """A session (in the client's cookies) and a token."""
    client.headers["Origin"] = str(client.base_url).rstrip("/")
    credentials = {"username": "admin", "password": PASSWORD}
    (await client.post("/api/v1/auth/login", json=credentials)).raise_for_status()
    answer = await client.post("/api/v1/tokens", json={"name": "bench"})
    answer.raise_for_status()
    made: dict[str, Any] = answer.json()
    return str(made["token"])


def is_postgres(pid: int) -> bool:
    line = command_line(pid)
    return line.startswith("postgres:") or "/bin/postgres " in line
