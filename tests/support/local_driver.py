"""A CodeHub process that is killed in the middle of what it does, many times over.

    python local_driver.py ROOT start|stop|job DELAY_SECONDS...

For each delay: fork, let the child begin the call on a workspace of its own, kill -9 it after the delay,
and print the workspace's id. The parent never touches the runtime itself, so every child is as fresh as a
new process, without the time an import takes.
"""

import asyncio
import os
import signal
import sys
import time
from pathlib import Path
from uuid import UUID, uuid4

from codehub.runtimes.base import FencingToken, ResourceLimits, StorageJob, StorageKind, StorageProgress
from tests.support.local_environment import LocalEnvironment

TOKEN = FencingToken(1, 1)


async def ignore(progress: StorageProgress) -> None:
    pass


async def act(root: Path, what: str, workspace_id: UUID, ready_fd: int) -> None:
    environment = LocalEnvironment(root)
    runtime = await environment.open()
    await runtime.provision(workspace_id, token=TOKEN)
    if what == "stop":
        await runtime.start(workspace_id, token=TOKEN, image_ref="family", env={}, limits=ResourceLimits())
    if what == "job":
        await environment.let_jobs(workspace_id, "slow")
    os.write(ready_fd, b"!")
    match what:
        case "start":
            await runtime.start(
                workspace_id, token=TOKEN, image_ref="family", env={}, limits=ResourceLimits()
            )
        case "stop":
            await runtime.stop(workspace_id, token=TOKEN)
        case "job":
            job = StorageJob(kind=StorageKind.ARCHIVE, workspace_id=workspace_id, op_id=uuid4())
            await runtime.run_storage_job(job, token=TOKEN, on_progress=ignore)
    await asyncio.sleep(1000)


def main() -> None:
    root, what, delays = Path(sys.argv[1]), sys.argv[2], [float(delay) for delay in sys.argv[3:]]
    for delay in delays:
        workspace_id = uuid4()
        ready, ready_fd = os.pipe()
        pid = os.fork()
        if pid == 0:
            asyncio.run(act(root, what, workspace_id, ready_fd))
        os.close(ready_fd)
        os.read(ready, 1)
        os.close(ready)
        time.sleep(delay)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        print(workspace_id, flush=True)


if __name__ == "__main__":
    main()
