"""The protocol of every runtime: local processes, Docker, Kubernetes.

Idempotent and fenced. Methods know nothing of the database, take ids and return plain values. A leader that has
been replaced without knowing it may call them, so every mutation carries a ``FencingToken``: under a per-workspace lock
a token lower than the highest one seen is refused with ``STALE_TOKEN``.

A home has one user at a time. A runtime that can find other users of a home (Docker: by its mount) refuses to
start, to run a storage job and to delete while a container it did not start uses the home:
``VOLUME_USED_ELSEWHERE``, which is a Mismatch for a person and never retried. The local runtime cannot find
them: any process of the machine's user may open the directory.

An engine that does not hold this installation's homes counts as away, for every method, ``probe`` too.

Errors are ``EffectError`` with a code from ``domain/errors``; no other exception leaves a runtime.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol
from uuid import UUID

from codehub.domain.endings import Ending
from codehub.domain.states import ContainerState
from codehub.runtimes.exec_stream import ExecStream, TerminalSize


@dataclass(frozen=True, order=True)
class FencingToken:
    """Fencing token: claim of the workspace and term of the leader. The higher wins.

    ``op_seq`` counts claims of this workspace and comes first: a newer claim outranks any leader
    still busy with an older one. Within one claim the higher ``epoch`` wins, so the leader that
    adopted an operation outranks the one it took over from.
    """

    op_seq: int
    epoch: int


@dataclass(frozen=True)
class Address:
    """A TCP port the proxy can connect to."""

    host: str
    port: int


@dataclass(frozen=True)
class UnixSocket:
    """A Unix socket on the proxy's machine.

    The workspace may write to its directory, so the last part of the path must not be followed if it is a link.
    """

    path: str


Endpoint = Address | UnixSocket
"""Where the proxy connects to the IDE. Engines with a network of their own report addresses."""


@dataclass(frozen=True)
class Sighting:
    """What exists of one workspace, as observed."""

    container: ContainerState = ContainerState.NONE
    volume: bool = False
    address: Endpoint | None = None
    paused: bool = False  # the container runs, but is frozen: it answers no request
    storage_job: bool = False  # one is running; it is not a container of the workspace


@dataclass(frozen=True)
class Observation:
    """Result of one observation of the engine.

    ``sightings`` holds what exists; a workspace in neither field has nothing. ``unreadable`` names the
    workspaces of which something exists that could not be read: nothing follows about them, least of
    all that they are gone. With ``observe(ids)`` both fields cover these ids alone.
    """

    sightings: Mapping[UUID, Sighting] = field(default_factory=dict)
    unreadable: frozenset[UUID] = frozenset()


@dataclass(frozen=True)
class LeftVolume:
    """A volume that a home had and that its engine keeps: nobody but a person removes it."""

    name: str
    bytes: int | None = None
    since: datetime | None = None


@dataclass(frozen=True)
class ResourceLimits:
    """Resource limits of one container. None: no limit."""

    cpus: float | None = None
    memory_bytes: int | None = None
    pids: int | None = None

    def or_default(self, default: "ResourceLimits") -> "ResourceLimits":
        """These limits; where there is none, that of ``default``."""
        return ResourceLimits(
            cpus=default.cpus if self.cpus is None else self.cpus,
            memory_bytes=default.memory_bytes if self.memory_bytes is None else self.memory_bytes,
            pids=default.pids if self.pids is None else self.pids,
        )


class StorageKind(StrEnum):
    ARCHIVE = "archive"
    RESTORE = "restore"


@dataclass(frozen=True)
class StorageJob:
    """One archive or restore of a workspace's volume.

    Archive: if a committed attempt exists under ``{workspace_id}/{op_id}/`` the job is done; otherwise it
    writes a new attempt there. Restore: reads ``archive_key``.
    """

    kind: StorageKind
    workspace_id: UUID
    op_id: UUID
    archive_key: str | None = None  # restore: what to unpack; archive: what the volume was restored from
    archive_sha256: str | None = None  # its checksum as committed; None: of an older release
    archive_source_id: UUID | None = (
        None  # the workspace ``archive_key`` was made of, where it is another: a copy
    )
    format_version: int = 1  # archive: the format to write
    image_ref: str = ""  # what will run on the home: a runtime may keep homes of images differently


@dataclass(frozen=True)
class StorageProgress:
    """Progress of a storage job. ``total_bytes``: estimated on archive only."""

    done_bytes: int
    total_bytes: int | None = None
    files: int = 0


@dataclass(frozen=True)
class StorageResult:
    """Result of a successful storage job."""

    archive_key: str
    bytes: int  # compressed size of the object
    files: int
    skipped: int = 0  # sockets, which no archive can hold
    sha256: str | None = None  # of the object; None: not reported by a job of an older release
    bound: bool = True  # restore: the archive is known to be this workspace's own
    extra: Mapping[str, Any] = field(default_factory=dict)


ProgressCallback = Callable[[StorageProgress], Awaitable[None]]

WaitCallback = Callable[[str | None], Awaitable[None]]
"""Told that a container waits, and why, at least every few seconds; None: it does not any more.

It waits for a node, in the scheduler's words, or for its IDE: ``installing TITLE PERCENT %``.

Time spent waiting uses up no timeout of the caller: the runtime has a limit of its own for it (``UNSCHEDULABLE``)."""

OnWait = WaitCallback | None


@dataclass(frozen=True)
class InstallableImage:
    """An image that is installed at its first use. ``version`` None: it is not yet; ``percent``: it is right now."""

    name: str
    title: str
    offered: str
    version: str | None
    percent: int | None
    fetched_mb: int
    disk_mb: int


class Runtime(Protocol):
    """A runtime. Every implementation, the fake included, passes ``tests/contract``."""

    @property
    def name(self) -> str:
        """Name of the runtime, shown to people: ``local``, ``docker``…"""

    async def observe(self, ids: Collection[UUID] | None = None) -> Observation:
        """Observe all workspaces of this installation, or ``ids``.

        Takes a constant number of calls. A workspace that is not in the result has nothing. Raises if the engine
        could not be listed: never a partial result, because an absent entry means "gone". A single item that cannot
        be read is named in ``Observation.unreadable`` and fails nothing else.
        """

    async def provision(self, workspace_id: UUID, *, token: FencingToken, image_ref: str = "") -> None:
        """Create the volume. An existing one is left as it is.

        ``image_ref``: what will run on it; a runtime may keep homes of images differently.
        """

    async def start(
        self,
        workspace_id: UUID,
        *,
        token: FencingToken,
        image_ref: str,
        env: Mapping[str, str],
        limits: ResourceLimits,
        on_wait: OnWait = None,
    ) -> None:
        """Start the container on its volume; removes a dead container first.

        Refuses without a volume. ``on_wait``: called by runtimes with nodes while none takes the container.
        """

    async def stop(self, workspace_id: UUID, *, token: FencingToken) -> None:
        """Stop and remove the container, dead ones too: SIGTERM, grace, SIGKILL.

        The volume is untouched.
        """

    async def delete_volume(self, workspace_id: UUID, *, token: FencingToken) -> None:
        """Delete the volume. Refuses while a container uses it (``VOLUME_IN_USE``)."""

    async def run_storage_job(
        self,
        job: StorageJob,
        *,
        token: FencingToken,
        on_progress: ProgressCallback,
        on_wait: OnWait = None,
    ) -> StorageResult:
        """Run a storage job to its end.

        It has a process or container of its own, which holds the workspace's lock. A newer token first kills an
        older job and confirms it gone. Cancelling the call kills the job.
        """

    async def kill_storage_job(self, workspace_id: UUID, *, token: FencingToken) -> None:
        """Kill the storage job of this workspace; returns when it is confirmed gone."""

    async def address(self, workspace_id: UUID) -> Endpoint | None:
        """Where the proxy connects; None: no container runs."""

    async def ending(self, workspace_id: UUID) -> Ending | None:
        """How the dead container ended. None: there is none, or it is not known."""

    def logs(self, workspace_id: UUID, *, follow: bool = False) -> AsyncIterator[bytes]:
        """Recent output of the container, oldest first; ``follow``: later output too."""

    async def exec(
        self,
        workspace_id: UUID,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        tty: TerminalSize | None = None,
    ) -> ExecStream:
        """Run a command beside the IDE: same user, rights, files and processes, and no more of any.

        ``env`` is added to the container's own environment; ``cwd`` None: where the container began. A program
        that is not found is an ``Exit`` with 127. Refuses with ``CONTAINER_NOT_RUNNING`` if none runs; it has no
        token, as it changes nothing that is fenced: stopping the container ends it.
        """

    async def images(self) -> list[str]:
        """Allowed values of ``image_ref``; the first is the default. Empty: any."""

    async def probe(self) -> None:
        """Raise if the engine as a whole is away. Cheap."""

    async def remove_orphan_container(self, workspace_id: UUID) -> None:
        """Remove our container of an unknown workspace. Never removes a volume."""

    async def close(self) -> None:
        """Close connections; containers keep running."""
