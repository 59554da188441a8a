"""Open a copy: a new workspace whose first home is a kept archive of another one.

No data is copied in the store. The new row names the archive of its source (``copy_of``) and chooses it
(``restore_from``); the Reconciler switches to it as for a return to an earlier archive, and an ordinary restore
follows. The archive GC keeps that archive while the new row names it, through the deletion of the source. Only people
who may see the source may copy it, and the copy is owned by whoever owns the source.
"""

from uuid import UUID

from codehub.archives.keys import parse_archive_key
from codehub.domain.causes import Cause, CauseCode
from codehub.domain.copies import CopySource
from codehub.domain.generations import ChosenArchive
from codehub.domain.limits import RunningLimits
from codehub.domain.workspace import WorkspaceView
from codehub.services import workspaces
from codehub.services.actors import Actor
from codehub.services.errors import NotCopyable, WorkspaceDeleted
from codehub.services.generations import bound
from codehub.services.intent_store import IntentStore
from codehub.services.workspaces import WorkspaceValues
from codehub.store import control
from codehub.store.db.session import Session
from codehub.store.workspaces.records import WorkspaceRecord


async def copy(
    session: Session,
    source_id: UUID,
    archive: ChosenArchive,
    new: WorkspaceValues,
    *,
    actor: Actor,
    limits: RunningLimits,
    store: IntentStore = control,
) -> WorkspaceRecord:
    """Create a workspace from an archive of ``source_id``, in one transaction.

    ``archive`` comes from the archive's meta. Raises ``NotCopyable``, ``NameTaken`` or ``LimitReached``; then nothing
    was written.
    """
    await store.lock_limits(session)
    # Locked, so that it is not deleted meanwhile. After the commit a deletion is harmless: the copy names the archive.
    source = workspaces.visible(await store.find_locked(session, source_id), actor)
    if source.view.deleted_at is not None:
        raise WorkspaceDeleted(source_id)
    chosen = _proven(source.view, archive)
    # In this transaction: the GC deletes only what it recorded before, and asks what copies need first.
    if await store.orphans_among(session, [chosen.archive_key]):
        raise NotCopyable("This archive is not kept any longer: it is about to be removed.")
    path = parse_archive_key(chosen.archive_key)
    assert path is not None, "it was found by its parts"
    record = await workspaces.create(
        session, new, owner_id=source.view.owner_id, actor=actor, limits=limits, store=store
    )
    await store.set_actor(session, actor.label, Cause(CauseCode.COPIED).text)
    copy_id = record.view.id
    await store.set_copy_of(session, copy_id, CopySource(path.workspace_id, chosen.archive_key))
    await store.set_restore_from(session, copy_id, chosen)
    await store.append_audit(
        session,
        actor=actor.label,
        action="workspace.copy",
        subject=str(copy_id),
        detail={"source": str(source_id), "archive_key": chosen.archive_key, "name": new.name},
    )
    return await store.find(session, copy_id) or record


def current_archive(view: WorkspaceView) -> str:
    """The archive that is the present home of a sleeping workspace. Raises ``NotCopyable`` where none is."""
    if view.archive_key is None:
        raise NotCopyable("It has no archive yet: take a snapshot first.")
    if view.home.volume or view.restore_from is not None:
        raise NotCopyable("Its home is newer than its archives: take a snapshot first, and copy that.")
    return view.archive_key


def _proven(view: WorkspaceView, archive: ChosenArchive) -> ChosenArchive:
    chosen = bound(view, archive)
    if chosen.sha256 is None:
        raise NotCopyable("The checksum of this archive is not known.")
    return chosen
