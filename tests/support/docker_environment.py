"""The Docker runtime on a real engine, each test with installations of its own, all removed afterwards.

Runtimes reach the engine through a relay, so that a test can take the engine away from them without taking
it from everybody else.
"""

import asyncio
import tempfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from uuid import UUID, uuid4

from codehub.runtimes.docker import DockerRuntime, DockerSettings, JobSettings
from codehub.runtimes.docker.exits import OnExit
from codehub.runtimes.docker.names import INSTALLATION, Names
from tests.support.docker_api import DockerApi
from tests.support.docker_images import APP, JOB_SCRIPT, PYTHON, SCRIPTS, ensure_images, image

JOB_COMMAND = (PYTHON, f"{APP}/{JOB_SCRIPT.name}")


class Relay:
    """Bytes from one socket to another and back, until it is cut."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._folder = tempfile.TemporaryDirectory(prefix="codehub-relay-")
        self._path = Path(self._folder.name) / "docker.sock"
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._relaying: set[asyncio.Task[None]] = set()
        self._flowing = asyncio.Event()
        self._flowing.set()

    @property
    def address(self) -> str:
        return f"unix://{self._path}"

    async def open(self) -> None:
        self._server = await asyncio.start_unix_server(self._accept, self._path)

    async def cut(self) -> None:
        """Nobody answers any more, and those who were talking are hung up on."""
        if self._server is not None:
            self._server.close()
            self._server = None
        self._path.unlink(missing_ok=True)
        for writer in list(self._writers):
            writer.transport.abort()
        if self._relaying:
            await asyncio.wait(self._relaying)

    def freeze(self) -> None:
        """Whoever connects is taken, and gets no answer."""
        self._flowing.clear()

    async def close(self) -> None:
        self._flowing.set()
        await self.cut()
        self._folder.cleanup()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._relay(reader, writer))
        self._relaying.add(task)
        task.add_done_callback(self._relaying.discard)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there_reader, there_writer = await asyncio.open_unix_connection(self._target)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, there_writer}
        try:
            await asyncio.gather(self._pump(reader, there_writer), self._pump(there_reader, writer))
        finally:
            self._writers -= {writer, there_writer}
            for each in (writer, there_writer):
                each.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                await self._flowing.wait()
                writer.write(data)
                await writer.drain()
            if writer.can_write_eof():
                writer.write_eof()


class DockerEnvironment:
    """What ``tests/contract/runtime_suite`` asks of an engine, and a little more."""

    def __init__(self, address: str, root: Path) -> None:
        self.api = DockerApi(address)
        self.root = root
        self.settings = DockerSettings(
            images=[image(name) for name in SCRIPTS],
            stop_grace_seconds=2,
            settle_seconds=30,  # all these images listen or end, however busy the machine is
        )
        self.image, self.failing_image = image("tiny"), image("wrong")
        self.jobs = JobSettings(image=image("job"), archive_url=f"file://{self.store}", command=JOB_COMMAND)
        self._mark = uuid4().hex[:8]
        self._relay = Relay(self.api.socket_path)
        self._opened: list[DockerRuntime] = []
        self._installations: set[str] = set()

    async def prepare(self) -> None:
        ensure_images(self.api, [*SCRIPTS, "job"])
        await self._relay.open()
        # A store without any entry is taken for a disk that is not mounted.
        (self.store / "store").touch()

    @property
    def engine_url(self) -> str:
        """The engine, by way of the relay."""
        return self._relay.address

    def installation_id(self, installation: str = "one") -> str:
        return f"{installation}-{self._mark}"

    def names(self, installation: str = "one") -> Names:
        return Names(self.installation_id(installation))

    async def open(
        self,
        installation: str = "one",
        *,
        on_exit: OnExit | None = None,
        create: bool = True,
        **changes: object,
    ) -> DockerRuntime:
        installation_id = self.installation_id(installation)
        self.will_clean(installation_id)
        settings = replace(self.settings, **{"engine_url": self.engine_url, **changes})  # type: ignore[arg-type]
        runtime = DockerRuntime(
            installation_id,
            settings,
            jobs=self.jobs,
            on_exit=on_exit,
        )
        await runtime.prepare(create=create)
        self._opened.append(runtime)
        return runtime

    def will_clean(self, installation_id: str) -> None:
        """Remove what this installation leaves on the engine."""
        self._installations.add(installation_id)

    @property
    def store(self) -> Path:
        path = self.root / "store"
        path.mkdir(exist_ok=True)
        return path

    async def kill_container(self, workspace_id: UUID) -> None:
        self.api.kill(f"ws-{workspace_id}")

    async def kill_job(self, workspace_id: UUID) -> None:
        self.api.kill(f"ws-{workspace_id}-job")

    async def let_stranger_in(self, workspace_id: UUID) -> None:
        mount = {"Type": "volume", "Source": f"ws-{workspace_id}-home", "Target": "/theirs"}
        config = {
            "Image": self.image,
            "Entrypoint": ["/bin/sleep", "1000"],
            "Labels": {INSTALLATION: self.installation_id()},  # removed with everything else of this test
            "HostConfig": {"Mounts": [mount], "NetworkMode": "none"},
        }
        name = f"stranger-{workspace_id}"
        self.api.call("POST", "/containers/create", body=config, name=name)
        self.api.call("POST", f"/containers/{name}/start")

    async def send_stranger_away(self, workspace_id: UUID) -> None:
        self.api.remove_container(f"stranger-{workspace_id}")

    async def write(self, workspace_id: UUID, name: str, content: str) -> None:
        self.api.write_file(f"ws-{workspace_id}-home", name, content.encode(), image=self.image)

    async def read(self, workspace_id: UUID, name: str) -> str | None:
        data = self.api.read_file(f"ws-{workspace_id}-home", name, image=self.image)
        return None if data is None else data.decode()

    async def let_jobs(self, workspace_id: UUID, behaviour: str) -> None:
        (self.store / f"{workspace_id}.behaviour").write_text(behaviour)

    def steps(self, workspace_id: UUID) -> int:
        """How many steps a swap had, after ``die``."""
        return int((self.store / f"{workspace_id}.steps").read_text())

    async def break_engine(self) -> None:
        await self._relay.cut()

    async def freeze_engine(self) -> None:
        self._relay.freeze()

    async def mend_engine(self) -> None:
        await self._relay.open()

    async def close(self) -> None:
        for runtime in self._opened:
            await runtime.close()
        await self._relay.close()
        for installation_id in self._installations:
            self.api.remove_everything(f"{INSTALLATION}={installation_id}")
