"""Perform the action of each operation on the runtime and the archive store.

An action makes at most one irreversible change and returns what has to be written about it. It never writes to
the database itself: the Reconciler does, fenced, before the next irreversible step may begin. That is why
ARCHIVING takes two actions. The first uploads the archive and reads it back; its key is committed, which makes
the volume untrusted; the second, planned from the committed row, deletes it. A crash in between leaves a row
that tells the next leader which half is done.

Idempotent. Every action carries the token of its claim. Right before each effect it checks that leadership was
verified recently, and before deleting a volume it checks in the database that the operation is still its own.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, assert_never
from uuid import UUID

from codehub.domain.errors import EffectError, FailureCode
from codehub.domain.states import Operation
from codehub.domain.workspace import WorkspaceView
from codehub.runtimes.base import (
    FencingToken,
    ProgressCallback,
    ResourceLimits,
    Runtime,
    StorageJob,
    StorageKind,
    StorageResult,
    WaitCallback,
)


class ArchiveCatalogue(Protocol):
    """The archive store, as the Reconciler uses it.

    Only storage jobs read and write archives.
    """

    async def has_committed(self, workspace_id: UUID) -> bool:
        """Whether any committed archive of this workspace exists."""

    async def probe(self) -> None:
        """Raise if the store as a whole is away."""


@dataclass(frozen=True)
class Acted:
    """The action ended; its effect must now be observed."""


@dataclass(frozen=True)
class Archived:
    """The archive is stored and was read back; its key is to be committed.

    The volume is still whole.
    """

    archive_key: str
    sizes: Mapping[str, int]
    sha256: str | None = None


@dataclass(frozen=True)
class Restored:
    """The volume holds all of this archive; the restore marker is to be set.

    ``bound``: the archive is known to be this workspace's own.
    """

    archive_key: str
    bound: bool = True


Effect = Acted | Archived | Restored


@dataclass(frozen=True)
class Call:
    """One execution of the operation in flight."""

    ws: WorkspaceView
    token: FencingToken
    on_progress: ProgressCallback
    on_wait: WaitCallback
    assert_leading: Callable[[], None]  # raises if leadership was not verified recently
    assert_mine: Callable[
        [], Awaitable[None]
    ]  # checks the database; raises if the operation has another owner
    env: Mapping[str, str] = field(default_factory=dict)
    limits: ResourceLimits = field(default_factory=ResourceLimits)


class Actions:
    """The action of each operation."""

    def __init__(self, runtime: Runtime, archives: ArchiveCatalogue, *, archive_format: int = 1) -> None:
        self._runtime = runtime
        self._archives = archives
        self._archive_format = archive_format

    async def perform(self, call: Call) -> Effect:
        match call.ws.operation:
            case Operation.PROVISIONING:
                return await self._provision(call)
            case Operation.RESTORING:
                return await self._restore(call)
            case Operation.STARTING:
                return await self._start(call)
            case Operation.STOPPING:
                return await self._stop(call)
            case Operation.ARCHIVING:
                return await self._archive(call)
            case Operation.DELETING:
                return await self._delete(call)
            case Operation.NONE:
                raise AssertionError("nothing is in flight")
            case _:
                assert_never(call.ws.operation)

    async def abandon(self, workspace_id: UUID, *, token: FencingToken) -> None:
        """Confirm that nothing of a cancelled operation still works on the volume."""
        await self._runtime.kill_storage_job(workspace_id, token=token)

    async def remove_leftovers(self, workspace_id: UUID, *, token: FencingToken) -> None:
        """Remove container and volume that an operation left of a deleted workspace."""
        await self._runtime.stop(workspace_id, token=token)
        await self._runtime.delete_volume(workspace_id, token=token)

    async def _provision(self, call: Call) -> Effect:
        # A row that lost its archive_key (a restored backup of the database) must not become a new,
        # empty home beside the real one.
        if await self._archives.has_committed(call.ws.id):
            raise EffectError(
                FailureCode.ARCHIVE_UNEXPECTED,
                "A new home was wanted, but an archive of this workspace exists. Nothing was created.",
                expected="archives=0",
                actual="archives>0",
            )
        call.assert_leading()
        await self._runtime.provision(call.ws.id, token=call.token, image_ref=call.ws.image_ref)
        return Acted()

    async def _start(self, call: Call) -> Effect:
        call.assert_leading()
        await self._runtime.start(
            call.ws.id,
            token=call.token,
            image_ref=call.ws.image_ref,
            env=call.env,
            limits=call.limits,
            on_wait=call.on_wait,
        )
        return Acted()

    async def _stop(self, call: Call) -> Effect:
        call.assert_leading()
        await self._runtime.stop(call.ws.id, token=call.token)
        return Acted()

    async def _restore(self, call: Call) -> Effect:
        key = call.ws.archive_key
        assert key is not None, "RESTORING is planned only with an archive_key"
        await self._stop(call)  # a dead container would hold the volume
        job = StorageJob(
            StorageKind.RESTORE,
            call.ws.id,
            self._op_id(call),
            archive_key=key,
            archive_sha256=call.ws.archive_sha256,
            archive_source_id=call.ws.archive_source_id,
            image_ref=call.ws.image_ref,
        )
        call.assert_leading()
        result = await self._run_job(job, call)
        return Restored(key, bound=result.bound)

    async def _archive(self, call: Call) -> Effect:
        await self._stop(call)
        keeps_volume = call.ws.home.keeps_volume  # its archive is a snapshot: the volume is never deleted
        assert not keeps_volume or call.ws.volume_is_trusted, "the claim and the commit leave it trusted"
        if not call.ws.volume_is_trusted:  # committed already, or never whole: the archive is the home
            return await self._delete_volume(call)
        job = StorageJob(
            StorageKind.ARCHIVE,
            call.ws.id,
            self._op_id(call),
            # What the home came from: format 2 stores what differs from it. The GC keeps it, it is the current one.
            archive_key=call.ws.archive_key,
            archive_sha256=call.ws.archive_sha256,
            archive_source_id=call.ws.archive_source_id,
            format_version=self._archive_format,
        )
        call.assert_leading()
        result = await self._run_job(job, call)
        sizes = {"bytes": result.bytes, "files": result.files}
        if "uncompressed_bytes" in result.extra:
            sizes["home_bytes"] = int(result.extra["uncompressed_bytes"])
        return Archived(result.archive_key, sizes, sha256=result.sha256)

    async def _delete(self, call: Call) -> Effect:
        await self._stop(call)
        call.assert_leading()
        await self._runtime.kill_storage_job(call.ws.id, token=call.token)
        return await self._delete_volume(call)

    async def _delete_volume(self, call: Call) -> Effect:
        await call.assert_mine()
        call.assert_leading()
        await self._runtime.delete_volume(call.ws.id, token=call.token)
        return Acted()

    async def _run_job(self, job: StorageJob, call: Call) -> StorageResult:
        return await self._runtime.run_storage_job(
            job, token=call.token, on_progress=call.on_progress, on_wait=call.on_wait
        )

    @staticmethod
    def _op_id(call: Call) -> UUID:
        assert call.ws.op_id is not None, "an operation in flight has an op_id"
        return call.ws.op_id
