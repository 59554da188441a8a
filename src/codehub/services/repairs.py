"""Repair what disagrees: return to the newest archive in the store, adopt what has no workspace.

Every repair is an intent in the database; the Reconciler does the rest, fenced and one step at a time. So a repair that
is asked for twice, or whose process dies, does no harm.

*Adopting* makes a row for a home or an archive that has none, as after the restore of an older database. The desired
state is PENDING: a volume is archived (older generations stay beside it), an archive becomes the home. Nothing is
started or overwritten.
"""

from collections.abc import Collection, Sequence
from typing import Protocol
from uuid import UUID

from codehub.archives.store import CommittedArchive
from codehub.domain.causes import Cause, CauseCode
from codehub.domain.generations import ChosenArchive
from codehub.domain.limits import RunningLimits
from codehub.domain.states import DesiredState
from codehub.runtimes.base import Observation
from codehub.services import generations
from codehub.services.actors import Actor
from codehub.services.errors import ArchiveNotRestorable, NothingToAdopt
from codehub.services.intent_store import IntentStore
from codehub.services.workspaces import WorkspaceValues
from codehub.store import control
from codehub.store.cluster import installation
from codehub.store.db.session import Session, Sessions
from codehub.store.workspaces.records import WorkspaceRecord


class ObservingRuntime(Protocol):
    async def observe(self, ids: Collection[UUID] | None = None) -> Observation: ...


class CommittedArchives(Protocol):
    async def find_committed(
        self, workspace_id: UUID, op_id: UUID | None = None
    ) -> Sequence[CommittedArchive]: ...


class Repairs:
    """Looks up what exists, then writes the intent in one transaction."""

    def __init__(
        self,
        sessions: Sessions,
        *,
        runtime: ObservingRuntime,
        archives: CommittedArchives,
        limits: RunningLimits,
    ) -> None:
        self._sessions = sessions
        self._runtime = runtime
        self._archives = archives
        self._limits = limits

    async def return_to_newest(self, workspace_id: UUID, *, actor: Actor) -> WorkspaceRecord:
        """Choose the newest archive in the store, also where the row does not know it.

        Raises ``ArchiveNotRestorable``, ``LimitReached`` or ``EffectError``; then nothing was written.
        """
        newest = await self._newest(workspace_id)
        if newest is None:
            raise ArchiveNotRestorable("There is no archive of this workspace in the store.")
        async with self._sessions.begin() as session:
            return await generations.restore(
                session, workspace_id, _chosen(newest), actor=actor, limits=self._limits
            )

    async def adopt(
        self, workspace_id: UUID, new: WorkspaceValues, *, owner_id: UUID, actor: Actor
    ) -> WorkspaceRecord:
        """Make a row for what exists under this id.

        Raises ``NothingToAdopt``, ``NameTaken`` or ``EffectError``; then nothing was written. What is gone between the
        look and the commit leaves an empty workspace, or a restore that says so.
        """
        seen = (await self._runtime.observe([workspace_id])).sightings.get(workspace_id)
        has_volume = seen is not None and seen.volume
        newest = await self._newest(workspace_id)
        if newest is None and not has_volume:
            raise NothingToAdopt("Neither a volume nor an archive of it was found.")
        async with self._sessions.begin() as session:
            # A volume may be newer than every archive: it is archived, and not replaced by one.
            chosen = _chosen(newest) if newest is not None and not has_volume else None
            return await _adopt(session, workspace_id, new, chosen, owner_id=owner_id, actor=actor)

    async def _newest(self, workspace_id: UUID) -> CommittedArchive | None:
        """The newest archive that this installation made; another's is left alone."""
        stored = await self._archives.find_committed(workspace_id)
        if not stored:
            return None
        async with self._sessions.begin() as session:
            ours = str((await installation.get_or_create(session)).id)
        return max(
            (each for each in stored if _is_of(each, ours)),
            key=lambda each: (each.meta.created_at, each.path.key),
            default=None,
        )


async def _adopt(
    session: Session,
    workspace_id: UUID,
    new: WorkspaceValues,
    chosen: ChosenArchive | None,
    *,
    owner_id: UUID,
    actor: Actor,
    store: IntentStore = control,
) -> WorkspaceRecord:
    await store.lock_limits(session)  # one at a time: of two that adopt one id, the second finds the row
    if await store.find(session, workspace_id) is not None:
        raise NothingToAdopt("It has a workspace.")
    await store.set_actor(session, actor.label, Cause(CauseCode.ADOPTED).text)
    record = await store.create(
        session,
        workspace_id=workspace_id,
        owner_id=owner_id,
        name=new.name,
        image_ref=new.image_ref,
        description=new.description,
        memo=new.memo,
        standby_ttl_seconds=new.standby_ttl_seconds,
        archive_ttl_seconds=new.archive_ttl_seconds,
        desired_state=DesiredState.PENDING,
    )
    if chosen is not None:
        await store.set_restore_from(session, workspace_id, chosen)
    await store.append_audit(
        session,
        actor=actor.label,
        action="workspace.adopt",
        subject=str(workspace_id),
        detail={"name": new.name, "archive_key": chosen.archive_key if chosen is not None else None},
    )
    return await store.find(session, workspace_id) or record


def _is_of(archive: CommittedArchive, installation_id: str) -> bool:
    binding = archive.meta.binding
    return binding is None or binding.installation_id == installation_id


def _chosen(archive: CommittedArchive) -> ChosenArchive:
    meta = archive.meta
    sizes = {"bytes": meta.bytes, "files": meta.files}
    return ChosenArchive(archive.path.key, meta.created_at, meta.sha256, sizes=sizes)
