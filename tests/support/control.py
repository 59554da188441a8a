"""A control plane for tests: real PostgreSQL, real Redis, real processes, real storage jobs.

``ControlEnvironment`` is one installation: a database, a Redis, a data directory. It starts any number of replicas
on them inside the test process and talks to them only as people do: through the services layer, and by
looking at rows, directories and processes.
"""

import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, cast
from uuid import UUID

from codehub.archives.store import ArchiveStore
from codehub.domain.limits import RunningLimits
from codehub.domain.states import Role
from codehub.domain.workspace import WorkspaceView
from codehub.kit.ids import uuid7
from codehub.runtimes.base import Runtime
from codehub.runtimes.kubernetes.runtime import KubernetesRuntime
from codehub.runtimes.local.runtime import LocalRuntime
from codehub.server.busy_sampling import build_busy_sampler
from codehub.server.control_plane import Archives, ControlPlane, CoordinatorDeps, build_control_plane
from codehub.server.runtime_choice import HostedRuntime
from codehub.server.settings.tree import Settings, load_settings
from codehub.services import workspaces
from codehub.services.actors import Actor
from codehub.services.workspaces import WorkspaceValues
from codehub.signals.activity import ActivityLog
from codehub.signals.connection import RedisLink
from codehub.signals.hints import Hints
from codehub.signals.live import LivePublisher
from codehub.store import control
from codehub.store.accounts import users
from codehub.store.db.connections import coordinator_connector
from codehub.store.db.session import Sessions
from codehub.store.workspaces import events
from codehub.store.workspaces.queries import find
from codehub.store.workspaces.records import WorkspaceRecord
from tests.support.redis import make_memory_old
from tests.support.waiting import until

TINY_SERVER = Path(__file__).with_name("tiny_server.py")
IMAGES = {
    "tiny": f"{sys.executable} {TINY_SERVER} {{port}}",
    "failing": f"{sys.executable} {TINY_SERVER} {{port}} --fail",
    "crashing": f"{sys.executable} {TINY_SERVER} {{port}} --crash",
}
JOB = (sys.executable, "-m", "codehub.archives.job")
ADMIN = Actor("user:test", is_admin=True)


FAST = {
    "COORDINATOR_START_JITTER": "0",
    "COORDINATOR_RETRY_INTERVAL": "0.2",
    "COORDINATOR_VERIFY_INTERVAL": "2",
    "OBSERVER_INTERVAL": "0.5",
    "OBSERVER_ACTIVE_INTERVAL": "0.1",
    "RECONCILER_INTERVAL": "0.5",
    "RECONCILER_ACTIVE_INTERVAL": "0.1",
    "RECONCILER_CONVERGE_INTERVAL": "0.2",
    "RECONCILER_RETRY_BACKOFF": "0.2",
    "TTL_INTERVAL": "0.2",
    "GC_INTERVAL": "0.3",
    "GC_DELAY": "0.5",
}
"""Polling short enough that a test without hints is over in seconds; nothing else differs."""


def fast_settings(**overrides: str) -> Settings:
    return load_settings({**FAST, **overrides})


@dataclass
class ControlEnvironment:
    database_url: str
    redis_url: str
    data_dir: Path
    sessions: Sessions
    owner_id: UUID = field(default_factory=uuid7)
    installation_id: str = field(default_factory=lambda: str(uuid7()))
    settings: Settings = field(default_factory=fast_settings)
    patience: float = 30.0
    """How many seconds a workspace may take to get anywhere."""

    @property
    def archive_url(self) -> str:
        return f"file://{self.data_dir / 'archives'}"

    async def prepare(self) -> None:
        (self.data_dir / "archives").mkdir(parents=True, exist_ok=True)
        await make_memory_old(self.redis_url)
        async with self.sessions() as session, session.begin():
            await users.create(
                session, user_id=self.owner_id, username="tester", password_hash="-", role=Role.USER
            )

    def archives(self) -> ArchiveStore:
        return ArchiveStore.from_url(self.archive_url)

    async def runtime(self, *, images: Mapping[str, str] = IMAGES, job: Sequence[str] = JOB) -> LocalRuntime:
        runtime = LocalRuntime(
            self.data_dir,
            self.installation_id,
            images,
            job_command=job,
            archive_url=self.archive_url,
            stop_grace_seconds=2,
        )
        await runtime.prepare()
        return runtime

    async def make_runtime(self) -> LocalRuntime | KubernetesRuntime:
        """What a replica has unless it is given another one."""
        return await self.runtime()

    @property
    def runtime_config(self) -> dict[str, Any]:
        """What a replica in another process needs to use the same runtime and archives."""
        return {
            "installation_id": self.installation_id,
            "archive_url": self.archive_url,
            "store_options": {},
        }

    @asynccontextmanager
    async def replica(
        self,
        node_id: str = "one",
        *,
        settings: Settings | None = None,
        runtime: Runtime | None = None,
        archives: Archives | None = None,
        database_url: str | None = None,
        redis_url: str | None = None,
        session_settings: Mapping[str, str] | None = None,
        keep_workspaces: bool = False,
        samples: bool = False,
    ) -> AsyncIterator[ControlPlane]:
        """One running replica's coordinators. ``samples``: whether workspaces work by themselves."""
        settings = settings or self.settings
        settings = settings.model_copy(
            update={"coordinator": settings.coordinator.model_copy(update={"node_id": node_id})}
        )
        link = RedisLink(redis_url or self.redis_url)
        own = runtime or await self.make_runtime()
        parts = CoordinatorDeps(
            store=control,
            connectors=partial(coordinator_connector, database_url or self.database_url),
            runtime=own,
            archives=archives or self.archives(),
            hints=Hints(link),
            live=LivePublisher(link),
            activity=ActivityLog(link),
            busy=build_busy_sampler(settings, cast(HostedRuntime, own)) if samples else None,
            session_settings=session_settings or {},
        )
        plane = build_control_plane(settings, parts)
        plane.start()
        try:
            yield plane
        finally:
            await plane.stop()
            if isinstance(own, LocalRuntime) and not keep_workspaces:
                await own.stop_all()
            if isinstance(own, LocalRuntime | KubernetesRuntime):
                await own.close()
            await link.close()

    async def create(self, name: str = "home", *, image: str = "tiny", start: bool = True, **kw: Any) -> UUID:
        async with self.sessions() as session, session.begin():
            record = await workspaces.create(
                session,
                WorkspaceValues(name=name, image_ref=image, start=start, **kw),
                owner_id=self.owner_id,
                actor=ADMIN,
                limits=RunningLimits(1000, 1000),
            )
        return record.view.id

    async def intent(self, workspace_id: UUID, verb: str) -> None:
        async with self.sessions() as session, session.begin():
            match verb:
                case "start":
                    await workspaces.start(
                        session, workspace_id, actor=ADMIN, limits=RunningLimits(1000, 1000)
                    )
                case "stop":
                    await workspaces.stop(session, workspace_id, actor=ADMIN)
                case "archive":
                    await workspaces.archive(session, workspace_id, actor=ADMIN)
                case "delete":
                    await workspaces.delete(session, workspace_id, actor=ADMIN)
                case "recover":
                    await workspaces.recover(
                        session, workspace_id, actor=ADMIN, limits=RunningLimits(1000, 1000)
                    )
                case _:
                    raise ValueError(verb)

    async def record(self, workspace_id: UUID) -> WorkspaceRecord:
        async with self.sessions() as session:
            record = await find(session, workspace_id)
        assert record is not None
        return record

    async def view(self, workspace_id: UUID) -> WorkspaceView:
        return (await self.record(workspace_id)).view

    async def until_status(self, workspace_id: UUID, status: str, *, seconds: float = 0) -> WorkspaceView:
        async def reached() -> bool:
            return (await self.record(workspace_id)).status == status

        await until(reached, seconds=max(seconds, self.patience), what=f"{workspace_id} to be {status}")
        return await self.view(workspace_id)

    async def history(self, workspace_id: UUID) -> list[Any]:
        """Oldest first."""
        async with self.sessions() as session:
            page = await events.list_page(session, workspace_id, limit=200)
        return list(reversed(page.items))

    def home(self, workspace_id: UUID) -> Path:
        return self.data_dir / "volumes" / f"ws-{workspace_id}-home"

    def servers_of(self, workspace_id: UUID) -> int:
        """How many servers of this workspace run: the tiny server listens, its starter does not count twice."""
        commands = [_command(folder) for folder in self._processes_of(workspace_id)]
        return len([each for each in commands if b"tiny_server.py" in each and b"bwrap" not in each])

    async def kill_workspace(self, workspace_id: UUID) -> None:
        for folder in self._processes_of(workspace_id):
            with suppress(ProcessLookupError):  # a sandbox takes what is inside with it
                os.kill(int(folder.name), signal.SIGKILL)

    async def end_workspaces(self) -> None:
        """End what replicas left running."""
        runtime = await self.runtime()
        await runtime.stop_all()
        await runtime.close()

    def _processes_of(self, workspace_id: UUID) -> list[Path]:
        wanted = (str(workspace_id).encode(), str(self.data_dir).encode())
        return [
            folder
            for folder, environ in environ_of_processes()
            if all(any(word in each for each in environ) for word in wanted)
        ]


def environ_of_processes() -> Iterator[tuple[Path, list[bytes]]]:
    """The folder below /proc and the environment of every process that may be looked at."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            yield folder, (folder / "environ").read_bytes().split(b"\0")


def _command(folder: Path) -> bytes:
    with suppress(OSError):
        return (folder / "cmdline").read_bytes()
    return b""
