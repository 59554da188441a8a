"""One replica's coordinators as a process of its own, that can be stopped dead at a chosen point.

    python -m tests.support.replica '{"database_url": …, "pause": ["start", "before"]}'

The product has no hooks for this: the real runtime is wrapped here. At the chosen point the process
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
from typing import TYPE_CHECKING, Any
from uuid import UUID

from codehub.archives.store import ArchiveStore
from codehub.runtimes.base import (
    FencingToken,
    OnWait,
    ProgressCallback,
    StorageJob,
    StorageProgress,
    StorageResult,
)
from codehub.runtimes.kubernetes.runtime import KubernetesRuntime
from codehub.runtimes.local.runtime import LocalRuntime
from codehub.store.db.connections import create_pool, session_factory
from tests.support.cluster_control import build_runtime
from tests.support.control import IMAGES, JOB, ControlEnvironment, fast_settings

CALLS = ("provision", "start", "stop", "delete_volume")

if TYPE_CHECKING:
    _Wrapped = LocalRuntime
else:
    _Wrapped = object  # the real runtime comes after ``Pausing`` in the classes below


def say(event: str, **fields: Any) -> None:
    print(json.dumps({"event": event, "at": time.time(), **fields}), flush=True)


class Pausing(_Wrapped):
    """Calls are told to the test; at the chosen one time stands still."""

    pause: tuple[str, str] | None = None

    async def _point(self, name: str, when: str) -> None:
        say("call", name=name, when=when)
        if self.pause == (name, when):
            say("paused", name=name, when=when)
            await asyncio.Event().wait()

    async def provision(self, workspace_id: UUID, *, token: FencingToken, image_ref: str = "") -> None:
        await self._point("provision", "before")
        await super().provision(workspace_id, token=token)
        await self._point("provision", "after")

    async def start(self, workspace_id: UUID, **kw: Any) -> None:
        await self._point("start", "before")
        await super().start(workspace_id, **kw)
        await self._point("start", "after")

    async def stop(self, workspace_id: UUID, *, token: FencingToken) -> None:
        await self._point("stop", "before")
        await super().stop(workspace_id, token=token)
        await self._point("stop", "after")

    async def delete_volume(self, workspace_id: UUID, *, token: FencingToken) -> None:
        await self._point("delete_volume", "before")
        await super().delete_volume(workspace_id, token=token)
        await self._point("delete_volume", "after")

    async def run_storage_job(
        self,
        job: StorageJob,
        *,
        token: FencingToken,
        on_progress: ProgressCallback,
        on_wait: OnWait = None,
    ) -> StorageResult:
        name = job.kind.value
        await self._point(name, "before")

        async def watched(progress: StorageProgress) -> None:
            await self._point(name, "during")
            await on_progress(progress)

        result = await super().run_storage_job(job, token=token, on_progress=watched)
        await self._point(name, "after")
        return result


class PausingLocal(Pausing, LocalRuntime):
    pass


class PausingKubernetes(Pausing, KubernetesRuntime):  # type: ignore[misc]  # typed as the local one
    pass


def build(config: dict[str, Any], environment: ControlEnvironment) -> PausingLocal | PausingKubernetes:
    if "kubeconfig" in config:
        return build_runtime(PausingKubernetes, config)
    return PausingLocal(
        environment.data_dir,
        environment.installation_id,
        IMAGES,
        job_command=JOB,
        archive_url=environment.archive_url,
        stop_grace_seconds=2,
    )


async def main(config: dict[str, Any]) -> None:
    pool = create_pool(config["database_url"])
    environment = ControlEnvironment(
        config["database_url"],
        config["redis_url"],
        Path(config["data_dir"]),
        session_factory(pool),
        installation_id=config["runtime"]["installation_id"],
    )
    runtime = build(config["runtime"], environment)
    runtime.pause = tuple(config["pause"]) if config.get("pause") else None
    await runtime.prepare()
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    settings = fast_settings(**config.get("settings", {}))
    async with environment.replica(
        config["node_id"],
        settings=settings,
        runtime=runtime,
        archives=ArchiveStore.from_url(
            config["runtime"]["archive_url"], options=config["runtime"]["store_options"]
        ),
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
