"""The protocol every runtime keeps: local processes, Docker, later Kubernetes.

All methods are idempotent, know nothing of the database, take ids and give plain values. They may be
called by a leader that has been replaced without knowing it, so every mutation carries a ``Token``:
under a per-workspace lock a token lower than the highest one seen is refused with ``STALE_TOKEN``.
A superseded leader's late call is rejected.

A home has one user at a time. A runtime that can see who else uses a home (Docker: by its mount) refuses to
start, to run a storage job and to delete while somebody it did not start does so: ``VOLUME_USED_ELSEWHERE``,
which is a Mismatch for a person and never retried. The local runtime cannot see that: any process of the
machine's user may open the directory.

An engine that is not the one that holds this installation's homes is away, for every method, ``probe`` too.

Errors are ``EffectError`` with a code from ``domain/errors``; nothing else crosses this edge.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol
from uuid import UUID

from codehub.domain.endings import Ending
from codehub.domain.states import ContainerState


@dataclass(frozen=True, order=True)
class Token:
    """Who acts: which claim of the workspace, in which term of leadership. Ordered; higher wins.

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
    """A socket in the file system of the proxy's machine. The workspace may write to its directory, so the
    last part of the path must not be followed if it is a link."""

    path: str


Endpoint = Address | UnixSocket
"""Where the proxy connects for the IDE itself. Engines whose network is their own report addresses."""


@dataclass(frozen=True)
class Sighting:
    """What exists of one workspace right now."""

    container: ContainerState = ContainerState.NONE
    volume: bool = False
    address: Endpoint | None = None
    paused: bool = False  # the container runs and was frozen by somebody: it answers nobody
    storage_job: bool = False  # one is running; it is not a container of the workspace


@dataclass(frozen=True)
class Observation:
    """One look at the engine.

    ``sightings`` holds what exists; a workspace in neither field has nothing. ``unreadable`` names the
    workspaces of which something exists that could not be read: nothing follows about them, least of
    all that they are gone. With ``observe(ids)`` both fields speak of these ids alone.
    """

    sightings: Mapping[UUID, Sighting] = field(default_factory=dict)
    unreadable: frozenset[UUID] = frozenset()


@dataclass(frozen=True)
class Limits:
    """What one container may use. None: no limit."""

    cpus: float | None = None
    memory_bytes: int | None = None
    pids: int | None = None


class StorageKind(StrEnum):
    ARCHIVE = "archive"
    RESTORE = "restore"


@dataclass(frozen=True)
class StorageJob:
    """One archive or restore of a workspace's volume.

    Archive: the job looks for a committed attempt under ``{workspace_id}/{op_id}/`` first and is done
    if there is one; otherwise it writes a new attempt there. Restore: reads ``archive_key``.
    """

    kind: StorageKind
    workspace_id: UUID
    op_id: UUID
    archive_key: str | None = None  # restore: what to unpack
    archive_sha256: str | None = None  # restore: its checksum as committed; None: of an older release


@dataclass(frozen=True)
class StorageProgress:
    """How far a storage job is. ``total_bytes`` is an estimate on archive, exact on restore."""

    done_bytes: int
    total_bytes: int | None = None
    files: int = 0


@dataclass(frozen=True)
class StorageResult:
    """How a storage job ended well."""

    archive_key: str
    bytes: int  # compressed size of the object
    files: int
    skipped: int = 0  # sockets, which no archive can hold
    sha256: str | None = None  # of the object; None: a job of an older release did not say
    bound: bool = True  # restore: the archive is known to be this workspace's own
    extra: Mapping[str, Any] = field(default_factory=dict)


ProgressCallback = Callable[[StorageProgress], Awaitable[None]]


class Runtime(Protocol):
    """Every implementation, the fake included, passes ``tests/contract``."""

    @property
    def name(self) -> str:
        """``local``, ``docker``…: for people."""

    async def observe(self, ids: Collection[UUID] | None = None) -> Observation:
        """Everything this installation owns (or just ``ids``), in a constant number of calls.

        A workspace that is not in the answer has nothing. Raises if it could not look: never a
        partial answer, because an absent entry means "gone". A single item that cannot be read is
        named in ``Observation.unreadable`` instead of failing the look.
        """

    async def provision(self, workspace_id: UUID, *, token: Token) -> None:
        """The volume exists. An existing one is left as it is."""

    async def start(
        self,
        workspace_id: UUID,
        *,
        token: Token,
        image_ref: str,
        env: Mapping[str, str],
        limits: Limits,
    ) -> None:
        """The container runs on its volume. Refuses without volume; sweeps a dead container first."""

    async def stop(self, workspace_id: UUID, *, token: Token) -> None:
        """The container is gone (SIGTERM, grace, SIGKILL), dead ones too; the volume is untouched."""

    async def delete_volume(self, workspace_id: UUID, *, token: Token) -> None:
        """The volume is gone; refuses while a container uses it (``VOLUME_IN_USE``)."""

    async def run_storage_job(
        self, job: StorageJob, *, token: Token, on_progress: ProgressCallback
    ) -> StorageResult:
        """Run the job to its end in a process or container of its own, which holds the workspace's lock.

        A newer token first kills an older job and confirms it gone. Cancelling the call kills the job.
        """

    async def kill_storage_job(self, workspace_id: UUID, *, token: Token) -> None:
        """No storage job of this workspace is running any more; confirmed before this returns."""

    async def address(self, workspace_id: UUID) -> Endpoint | None:
        """Where the proxy connects, or None when no container runs."""

    async def ending(self, workspace_id: UUID) -> Ending | None:
        """How a container that is dead ended. None: there is none, or the runtime does not know."""

    def logs(self, workspace_id: UUID, *, follow: bool = False) -> AsyncIterator[bytes]:
        """Recent output of the container, oldest first; with ``follow``, what comes after too."""

    async def images(self) -> list[str]:
        """What ``image_ref`` may be; the first is the default. Empty: anything goes."""

    async def probe(self) -> None:
        """Raise if the engine as a whole is away. Cheap."""

    async def remove_orphan_container(self, workspace_id: UUID) -> None:
        """Remove a container of ours whose workspace is unknown. Volumes are never removed this way."""

    async def close(self) -> None:
        """Give back connections; containers go on."""
