"""The peer: JupyterHub with PostgreSQL and configurable-http-proxy, from ``bench/.env``."""

import asyncio
import contextlib
import json
import os
import secrets
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from tests.support.ports import free_ports

from bench.client import Client
from bench.codehub_side import MANY, is_postgres
from bench.processes import PROGRAMS, command_line, running, tree
from codehub.server.processes import embedded
from codehub.server.settings.tree import load_settings

HERE = Path(__file__).parent
PYTHON = HERE / ".env/bin/python"
PROXY = HERE / "node_modules/.bin/configurable-http-proxy"
SECONDS_TO_START = 60.0
POLL_SECONDS = 0.5
"""Fifty that asked every 50 ms kept the hub busy with nothing else."""


@dataclass
class JupyterHub:
    """One that runs. ``client`` carries the token of an administrating service."""

    pid: int
    url: str
    client: httpx.AsyncClient
    token: str
    quick: Client
    database_pids: list[int]

    def pids(self) -> list[int]:
        """The control plane: hub, proxy, PostgreSQL."""
        return tree([self.pid, *self.database_pids])

    def pids_without_database(self) -> list[int]:
        return [pid for pid in self.pids() if not is_postgres(pid)]

    async def add_users(self, names: list[str]) -> None:
        for at in range(0, len(names), 100):
            (await self.quick.ask("POST", "/hub/api/users", {"usernames": names[at : at + 100]})).expect()

    async def start(self, name: str) -> None:
        """Returns once the server answers and its route is there: POST waits for both, up to ten seconds."""
        answer = (await self.quick.ask("POST", f"/hub/api/users/{name}/server")).expect()
        while answer.status == httpx.codes.ACCEPTED:
            await asyncio.sleep(POLL_SECONDS)
            user = (await self.quick.ask("GET", f"/hub/api/users/{name}")).json()
            if user["servers"].get("", {}).get("ready"):
                return

    async def stop(self, name: str) -> None:
        answer = (await self.quick.ask("DELETE", f"/hub/api/users/{name}/server")).expect()
        while answer.status == httpx.codes.ACCEPTED:
            await asyncio.sleep(POLL_SECONDS)
            if not (await self.quick.ask("GET", f"/hub/api/users/{name}")).json()["servers"]:
                return

    async def answers(self, name: str) -> bool:
        return (await self.quick.ask("GET", f"/user/{name}/")).status == httpx.codes.OK

    async def is_routed(self, name: str) -> bool:
        """Whether its server answers, if only that it has no such page: the hub itself would answer 424."""
        return (await self.quick.ask("GET", f"/user/{name}/")).status in (
            httpx.codes.OK,
            httpx.codes.NOT_FOUND,
        )


@contextlib.asynccontextmanager
async def jupyterhub(
    directory: Path, *, spawner: Mapping[str, Any] | None = None
) -> AsyncIterator[JupyterHub]:
    """``spawner``: servers on a cluster, by kubespawner, instead of processes here."""
    home = directory / "jupyterhub"
    home.mkdir()
    token = secrets.token_hex(16)
    port, hub_port, proxy_api_port = free_ports(3)
    # The same PostgreSQL with the same settings as CodeHub's embedded one, in a cluster of its own.
    settings = load_settings({"CODEHUB_DATA_DIR": str(directory / "jupyterhub-database")})
    before = set(tree([os.getpid()]))
    async with embedded.database(settings) as database_url:
        database_pids = [pid for pid in set(tree([os.getpid()])) - before if is_postgres(pid)]
        told = {
            "port": port,
            "hub_port": hub_port,
            "proxy_api_port": proxy_api_port,
            "database_url": database_url.replace("postgresql://", "postgresql+psycopg2://"),
            "directory": str(home),
            "token": token,
            "proxy": str(PROXY),
            "server": str(PROGRAMS / "trivial_server.pl"),
            "kubernetes": spawner,
        }
        command = (str(PYTHON), "-m", "jupyterhub", "-f", str(HERE / "jupyterhub_config.py"))
        env = {**os.environ, "BENCH": json.dumps(told), "KUBECONFIG": (spawner or {}).get("kubeconfig", "")}
        log = directory / "jupyterhub.log"
        async with (
            running(command, log=log, env=env, cwd=home) as process,
            httpx.AsyncClient(
                base_url=f"http://127.0.0.1:{port}",
                headers={"Authorization": f"token {token}"},
                timeout=120.0,
                trust_env=False,
                limits=MANY,
            ) as client,
        ):
            await _until_ready(client, process, log)
            postmasters = [pid for pid in database_pids if "/bin/postgres " in command_line(pid)]
            url = f"http://127.0.0.1:{port}"
            quick = Client(url, {"Authorization": f"token {token}"})
            yield JupyterHub(process.pid, url, client, token, quick, postmasters)
            await quick.close()


async def _until_ready(client: httpx.AsyncClient, process: asyncio.subprocess.Process, log: Path) -> None:
    async with asyncio.timeout(SECONDS_TO_START):
        while True:
            with contextlib.suppress(httpx.HTTPError):
                if (await client.get("/hub/api/users?limit=1")).status_code == httpx.codes.OK:
                    return
            if process.returncode is not None:
                raise RuntimeError(f"JupyterHub ended:\n{log.read_text()}")  # noqa: ASYNC240
            await asyncio.sleep(0.1)
