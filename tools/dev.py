"""``make dev``: a demo installation in var/dev that shows a change within a second or two.

PostgreSQL and Redis stay up for as long as this runs. ``codehub up`` on top of them is killed and started
again whenever a Python file changes: with SIGKILL, which it has to bear anyway and which is the fastest
way; workspaces live on. Vite serves the dashboard and replaces changed modules in the open page. The first
start fills in people and workspaces. Ctrl-C stops all of it, workspaces included.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import httpx

from codehub.cli.demo import make_demo
from codehub.server.processes.embedded import Endpoints, endpoints
from codehub.server.settings.tree import load_settings

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "codehub"
LOOK_SECONDS = 0.2
PASSWORD = "demo password"
PEOPLE = ("ann", "bob")


def environment(where: Endpoints | None = None) -> dict[str, str]:
    chosen = {
        "CODEHUB_DATA_DIR": str(ROOT / "var" / "dev"),
        "CODEHUB_ADMIN_PASSWORD": PASSWORD,
        "COORDINATOR_START_JITTER": "0",
        "LIMITS_MAX_RUNNING_PER_USER": "5",
        "LOG_FORMAT": "console",
        **os.environ,
    }
    if where is not None:
        chosen |= {"DATABASE_URL": where.database_url, "REDIS_URL": where.redis_url}
    return chosen


async def main() -> None:
    settings = load_settings(environment())
    url = settings.http.bind.url
    async with endpoints(settings) as where:
        environ = environment(where)
        async with _process("npm", "run", "dev", cwd=ROOT / "web", environ={**environ, "CODEHUB_URL": url}):
            seeding = asyncio.create_task(_seed(url))
            try:
                await _run_and_reload(environ)
            finally:
                seeding.cancel()
                await asyncio.gather(seeding, return_exceptions=True)


async def _run_and_reload(environ: dict[str, str]) -> None:
    while True:
        before = _times()
        async with _process(sys.executable, "-m", "codehub.cli.main", "up", environ=environ) as process:
            while (after := _times()) == before:
                await asyncio.sleep(LOOK_SECONDS)
            os.killpg(process.pid, signal.SIGKILL)
        changed = min(path for path, _ in set(after.items()) ^ set(before.items()))
        print(f"-- {changed.relative_to(ROOT)} changed: restarting", flush=True)


def _times() -> dict[Path, int]:
    found = {}
    for path in SOURCE.rglob("*.py"):
        with contextlib.suppress(FileNotFoundError):  # an editor replaces files
            found[path] = path.stat().st_mtime_ns
    return found


@contextlib.asynccontextmanager
async def _process(
    *command: str, environ: dict[str, str], cwd: Path = ROOT
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run it for the length of the block, in a session of its own: Ctrl-C reaches it through us, in order."""
    process = await asyncio.create_subprocess_exec(*command, cwd=cwd, env=environ, start_new_session=True)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        await process.wait()


async def _seed(url: str) -> None:
    """People and workspaces to look at. Idempotent: what exists is left alone."""
    headers = {"Origin": url, "Sec-Fetch-Site": "same-origin"}
    async with httpx.AsyncClient(
        base_url=f"{url}/api/v1", headers=headers, timeout=60, trust_env=False
    ) as client:
        await _until_ready(client, url)
        signed_in = await client.post("/auth/login", json={"username": "admin", "password": PASSWORD})
        if signed_in.is_error:
            print("-- no demo data: the administrator has another password", flush=True)
            return
        for username in PEOPLE:
            await client.post("/users", json={"username": username, "password": PASSWORD, "role": "user"})
    await make_demo(url, username="admin", password=PASSWORD)
    print(f"-- demo: open the address Vite printed, or {url}; admin, ann, bob / {PASSWORD}", flush=True)


async def _until_ready(client: httpx.AsyncClient, url: str) -> None:
    while True:
        with contextlib.suppress(httpx.HTTPError):
            if (await client.get(f"{url}/health/ready")).is_success:
                return
        await asyncio.sleep(LOOK_SECONDS)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main())
