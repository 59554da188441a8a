"""Return to an earlier archive: choose one, or cancel that while it waits.

A choice is an intent in the row (``restore_from``): the Reconciler archives the present home and then makes the chosen
archive the home, with one statement that also clears the intent (``domain/plan``). The rules of ``services/workspaces``
hold here too: one use case, one transaction, limits locked before the row, checks before writes.
"""

from dataclasses import replace
from uuid import UUID

from codehub.domain import generations
from codehub.domain.causes import Cause, CauseCode
from codehub.domain.generations import ChosenArchive
from codehub.domain.home import at_choice
from codehub.domain.limits import RunningLimits, holds_place
from codehub.domain.states import DesiredState
from codehub.domain.workspace import WorkspaceView
from codehub.services import workspaces
from codehub.services.actors import Actor
from codehub.services.errors import ArchiveNotRestorable, WorkspaceDeleted
from codehub.services.intent_store import IntentStore
from codehub.services.places import Asking, take_place
from codehub.store import control
from codehub.store.db.session import Session
from codehub.store.workspaces.records import WorkspaceRecord


async def restore(
    session: Session,
    workspace_id: UUID,
    chosen: ChosenArchive,
    *,
    start: bool = False,
    actor: Actor,
    limits: RunningLimits,
    store: IntentStore = control,
) -> WorkspaceRecord:
    """Choose the archive the workspace returns to. Idempotent; a later choice replaces an earlier one.

    ``chosen`` comes from the archive's meta. ``start``: RUNNING is desired afterwards; else the desired state stays.
    Lifts an error that earlier archives are for, as ``recover`` does. Raises ``ArchiveNotRestorable`` or
    ``LimitReached``; then nothing was written.
    """
    await store.lock_limits(session)
    record = await _locked(store, session, workspace_id, actor)
    view = record.view
    chosen = bound(view, chosen)
    await _check(store, session, view, chosen, actor=actor)
    cause = Cause(CauseCode.ASKED_TO_RETURN)
    wants_place = start or view.desired_state is DesiredState.RUNNING
    if wants_place and not holds_place(view):
        asking = Asking(view.owner_id, view.id)
        await take_place(store, session, asking, limits, actor=actor, cause=cause)
    else:
        await store.set_actor(session, actor.label, cause.text)
    if view.error_info is not None and (view.in_error or view.archiving_given_up):
        await store.recover(session, view.id, home=at_choice(view))
    await store.set_restore_from(session, view.id, chosen)
    if start and view.desired_state is not DesiredState.RUNNING:
        await store.set_desired(session, view.id, DesiredState.RUNNING, expected=view.desired_state)
    await store.append_audit(
        session,
        actor=actor.label,
        action="workspace.restore",
        subject=str(view.id),
        detail={"archive_key": chosen.archive_key, "start": start},
    )
    return await _reread(store, session, workspace_id)


async def cancel_restore(
    session: Session, workspace_id: UUID, *, actor: Actor, store: IntentStore = control
) -> WorkspaceRecord:
    """Cancel a return that waits. Idempotent: without one nothing changes.

    An archiving that has begun ends first; the desired state is met from its archive.
    """
    record = await _locked(store, session, workspace_id, actor)
    if record.view.restore_from is None:
        return record
    if record.view.copy_of is not None and record.view.archive_key is None:
        raise ArchiveNotRestorable(
            "A new copy has no other home to stay with. Delete it, if you do not want it."
        )
    await store.set_actor(session, actor.label, Cause(CauseCode.RETURN_CANCELLED).text)
    await store.set_restore_from(session, workspace_id, None)
    await store.append_audit(
        session,
        actor=actor.label,
        action="workspace.restore.cancel",
        subject=str(workspace_id),
        detail={"archive_key": record.view.restore_from.archive_key},
    )
    return await _reread(store, session, workspace_id)


def bound(view: WorkspaceView, chosen: ChosenArchive) -> ChosenArchive:
    """The choice with the checksum the row remembers. Raises if the store has another one in its place."""
    known = generations.find(view.home.generations, chosen.archive_key)
    sha256 = known.sha256 if known is not None else None
    if sha256 is None:  # the row remembers the checksum of a snapshot for as long as it is kept
        kept = (each.sha256 for each in view.snapshots if each.archive_key == chosen.archive_key)
        sha256 = next(kept, None)
    if sha256 is None and chosen.archive_key == view.archive_key:
        sha256 = view.archive_sha256
    if sha256 is not None and chosen.sha256 is not None and sha256 != chosen.sha256:
        raise ArchiveNotRestorable("It is not the archive that was stored: its checksum is another one.")
    return replace(chosen, sha256=sha256 or chosen.sha256)


async def _check(
    store: IntentStore, session: Session, view: WorkspaceView, chosen: ChosenArchive, *, actor: Actor
) -> None:
    # A vanished home may be a disk that is not mounted: an administrator knows, or accepts the loss.
    if not view.may_return and not (actor.is_admin and view.volume_has_vanished):
        raise ArchiveNotRestorable("An administrator has to look at the error of this workspace first.")
    if chosen.archive_key == view.archive_key and not view.volume_is_trusted:
        raise ArchiveNotRestorable("The workspace is at this archive already.")
    # In this transaction: the GC deletes only what it recorded before, and reads what is chosen first.
    if await store.orphans_among(session, [chosen.archive_key]):
        raise ArchiveNotRestorable("This archive is not kept any longer: it is about to be removed.")


async def _locked(store: IntentStore, session: Session, workspace_id: UUID, actor: Actor) -> WorkspaceRecord:
    record = workspaces.visible(await store.find_locked(session, workspace_id), actor)
    if record.view.deleted_at is not None:
        raise WorkspaceDeleted(workspace_id)
    return record


async def _reread(store: IntentStore, session: Session, workspace_id: UUID) -> WorkspaceRecord:
    record = await store.find(session, workspace_id)
    assert record is not None, "rows are never removed"
    return record
