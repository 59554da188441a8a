"""The local runtime on a temporary directory, with real processes, all of them ended afterwards."""

import os
import shlex
import signal
import sys
from pathlib import Path
from uuid import UUID

from codehub.runtimes.local import LocalRuntime
from codehub.runtimes.local.exits import OnExit
from codehub.runtimes.local.layout import Layout
from codehub.runtimes.local.processes import is_alive
from codehub.runtimes.local.records import find_record
from tests.support.waiting import until

SERVER = Path(__file__).with_name("tiny_server.py")
JOB = Path(__file__).with_name("script_job.py")
_PYTHON = f"{shlex.quote(sys.executable)} -I -S"


def server_command(*flags: str, where: str = "{port}") -> str:
    return " ".join([_PYTHON, shlex.quote(str(SERVER)), where, *flags])


IMAGES = {
    "tiny": server_command(),
    "wrong": server_command("--fail"),
    "stubborn": server_command("--ignore-term"),
    "family": server_command("--child", "--escape"),
    "based": server_command("{base_path}"),
    "tiny on a socket": server_command(where="{socket}"),
    "wrong on a socket": server_command("--fail", where="{socket}"),
}


class LocalEnvironment:
    image = "tiny"
    failing_image = "wrong"

    def __init__(self, root: Path, *, use_bubblewrap: bool = False, on_socket: bool = False) -> None:
        self.root = root
        self.use_bubblewrap = use_bubblewrap
        if on_socket:
            self.image, self.failing_image = "tiny on a socket", "wrong on a socket"
        self.opened: list[LocalRuntime] = []

    def layout(self, installation: str = "one") -> Layout:
        return Layout(self.root / installation, installation)

    async def open(self, installation: str = "one", *, on_exit: OnExit | None = None) -> LocalRuntime:
        runtime = LocalRuntime(
            self.layout(installation).data_dir,
            installation,
            IMAGES,
            job_command=[sys.executable, "-I", "-S", str(JOB)],
            archive_url=f"file://{self.store}",
            stop_grace_seconds=2,
            settle_seconds=30,  # all these images listen or end, however busy the machine is
            use_bubblewrap=self.use_bubblewrap,
            on_exit=on_exit,
        )
        await runtime.prepare()
        self.opened.append(runtime)
        return runtime

    @property
    def store(self) -> Path:
        path = self.root / "store"
        path.mkdir(exist_ok=True)
        return path

    async def kill_container(self, workspace_id: UUID) -> None:
        await _kill(self.layout().process(workspace_id))

    async def kill_job(self, workspace_id: UUID) -> None:
        await _kill(self.layout().job(workspace_id))

    async def write(self, workspace_id: UUID, name: str, content: str) -> None:
        (self.layout().volume(workspace_id) / name).write_text(content)

    async def read(self, workspace_id: UUID, name: str) -> str | None:
        path = self.layout().volume(workspace_id) / name
        return path.read_text() if path.exists() else None

    async def let_jobs(self, workspace_id: UUID, behaviour: str) -> None:
        (self.store / f"{workspace_id}.behaviour").write_text(behaviour)

    async def break_engine(self) -> None:
        """What an unmounted disk looks like: the directory is there and empty."""
        volumes = self.layout().volumes
        volumes.rename(volumes.with_name("elsewhere"))
        volumes.mkdir()

    async def close(self) -> None:
        for installation in ("one", "two"):
            elsewhere = self.layout(installation).data_dir / "elsewhere"
            if elsewhere.exists():
                elsewhere.with_name("volumes").rmdir()
                elsewhere.rename(elsewhere.with_name("volumes"))
            if self.layout(installation).processes.exists():
                await (await self.open(installation)).stop_all()
        for runtime in self.opened:
            await runtime.close()


async def _kill(record_path: Path) -> None:
    """kill -9 of the recorded process alone: what it started is left to the runtime."""
    record = find_record(record_path)
    assert record is not None
    os.kill(record.identity.pid, signal.SIGKILL)

    async def is_gone() -> bool:
        return not is_alive(record.identity)

    await until(is_gone, what="death")
