"""One replica's coordinators as a process of its own, that can be stopped dead at a chosen point.

    python -m tests.support.replica '{"database_url": …, "pause": ["start", "before"]}'

The product has no hooks for this: the real local runtime is wrapped here. At the chosen point the process
prints ``paused`` and waits for ever, so that the test can kill or freeze it exactly there. Lines on standard
output are JSON: ``{"event": "leading"}``, ``{"event": "paused"}``, ``{"event": "call", "name": …}``.
"""

import asyncio
import json
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

from codehub.runtimes.base import ProgressCallback, StorageJob, StorageProgress, StorageResult, Token
from codehub.runtimes.local.runtime import LocalRuntime
from codehub.store.db.connections import create_pool, session_factory
from tests.support.control import IMAGES, JOB, ControlEnvironment, fast_settings

CALLS = ("provision", "start", "stop", "delete_volume")


def say(event: str, **fields: Any) -> None:
    print(json.dumps({"event": event, "at": time.time(), **fields}), flush=True)


class Pausing(LocalRuntime):
    """Calls are told to the test; at the chosen one time stands still."""

    pause: tuple[str, str] | None = None

    async def _point(self, name: str, when: str) -> None:
        say("call", name=name, when=when)
        if self.pause == (name, when):
            say("paused", name=name, when=when)
            await asyncio.Event().wait()

    async def provision(self, workspace_id: UUID, *, token: Token) -> None:
        await self._point("provision", "before")
        await super().provision(workspace_id, token=token)
        await self._point("provision", "after")

    async def start(self, workspace_id: UUID, **kw: Any) -> None:
        await self._point("start", "before")
        await super().start(workspace_id, **kw)
        await self._point("start", "after")

    async def stop(self, workspace_id: UUID, *, token: Token) -> None:
        await self._point("stop", "before")
        await super().stop(workspace_id, token=token)
        await self._point("stop", "after")

    async def delete_volume(self, workspace_id: UUID, *, token: Token) -> None:
        await self._point("delete_volume", "before")
        await super().delete_volume(workspace_id, token=token)
        await self._point("delete_volume", "after")

    async def run_storage_job(
        self, job: StorageJob, *, token: Token, on_progress: ProgressCallback
    ) -> StorageResult:
        name = job.kind.value
        await self._point(name, "before")

        async def watched(progress: StorageProgress) -> None:
            await self._point(name, "during")
            await on_progress(progress)

        result = await super().run_storage_job(job, token=token, on_progress=watched)
        await self._point(name, "after")
        return result


async def main(config: dict[str, Any]) -> None:
    pool = create_pool(config["database_url"])
    cell = ControlEnvironment(
        config["database_url"],
        config["redis_url"],
        Path(config["data_dir"]),
        session_factory(pool),
        installation_id=config["installation_id"],
    )
    runtime = Pausing(
        cell.data_dir,
        cell.installation_id,
        IMAGES,
        job_command=JOB,
        archive_url=cell.archive_url,
        stop_grace_seconds=2,
    )
    runtime.pause = tuple(config["pause"]) if config.get("pause") else None
    await runtime.prepare()
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    settings = fast_settings(**config.get("settings", {}))
    async with cell.replica(
        config["node_id"],
        settings=settings,
        runtime=runtime,
        session_settings=config.get("session_settings"),
        keep_workspaces=True,
    ) as plane:
        leading = asyncio.create_task(_tell_leadership(lambda: plane.loops["wc"].leadership.is_leader))
        await stopping.wait()
        leading.cancel()
    await pool.dispose()


async def _tell_leadership(is_leader: Callable[[], bool]) -> None:
    leads = False
    while True:
        if is_leader() != leads:
            leads = not leads
            say("leading" if leads else "following")
        await asyncio.sleep(0.005)


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
