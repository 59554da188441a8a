"""Snapshots: ask for one, keep an archive as one, rename, delete.

A snapshot that has to be made is an intent in the row (``snapshot_as``): the plan archives the sleeping home and keeps
its volume, and the statement that commits the archive moves the name to the list (``domain/snapshots``). An archive
that exists is kept by naming it, here. Deleting one only takes the name away: the archive GC treats the archive like
any other from then on. The rules of ``services/workspaces`` hold: one transaction, checks under the row's lock.
"""

from dataclasses import replace
from uuid import UUID

from codehub.domain import snapshots as domain
from codehub.domain.causes import Cause, CauseCode
from codehub.domain.generations import ChosenArchive
from codehub.domain.home import at_recovery
from codehub.domain.snapshots import MAX_SNAPSHOTS, Snapshot, Snapshots, WantedSnapshot
from codehub.domain.states import DesiredState, ObservedStatus, Operation
from codehub.domain.workspace import WorkspaceView
from codehub.kit.ids import uuid7
from codehub.services import workspaces
from codehub.services.actors import Actor
from codehub.services.errors import NotFound, SnapshotRefused, WorkspaceDeleted
from codehub.services.generations import bound
from codehub.services.intent_store import IntentStore
from codehub.store import control
from codehub.store.db.session import Session
from codehub.store.workspaces.records import WorkspaceRecord


async def take(
    session: Session, workspace_id: UUID, name: str, *, actor: Actor, store: IntentStore = control
) -> tuple[WorkspaceRecord, UUID]:
    """Take a snapshot of a sleeping home; return the workspace and the snapshot's id.

    Where the archive is the home, that archive is named at once. Otherwise it is made; until then it is wanted, and
    asking again renames what is wanted. Raises ``SnapshotRefused``.
    """
    view = (await _locked(store, session, workspace_id, actor)).view
    _check_state(view)
    _check_room(view, new=view.snapshot_as is None)
    now = await store.now(session)
    if _archive_is_home(view):
        if view.archive_source_id is not None:  # it is not this workspace's to keep
            raise SnapshotRefused("It is a copy that was not used yet: its archive is that of its source.")
        snapshot_id = view.snapshot_as.id if view.snapshot_as is not None else uuid7()
        assert view.archive_key is not None
        kept = Snapshot(
            snapshot_id,
            name,
            view.archive_key,
            view.archived_at or now,
            sha256=view.archive_sha256,
            sizes=view.home.sizes,
        )
        await _write(
            store,
            session,
            view,
            CauseCode.SNAPSHOT_KEPT,
            wanted=None,
            made=(*view.snapshots, kept),
            actor=actor,
        )
    else:
        snapshot_id = view.snapshot_as.id if view.snapshot_as is not None else uuid7()
        if view.error_info is not None and view.archiving_given_up:  # a person asks: its pause is over
            await store.recover(session, view.id, home=at_recovery(view))
        wanted = WantedSnapshot(snapshot_id, name, now)
        await _write(
            store,
            session,
            view,
            CauseCode.ASKED_FOR_SNAPSHOT,
            wanted=wanted,
            made=view.snapshots,
            actor=actor,
        )
    return await _reread(store, session, workspace_id), snapshot_id


async def keep(
    session: Session,
    workspace_id: UUID,
    name: str,
    archive: ChosenArchive,
    *,
    actor: Actor,
    store: IntentStore = control,
) -> tuple[WorkspaceRecord, UUID]:
    """Keep an archive of this workspace as a snapshot. Idempotent: one that is kept gets the new name.

    ``archive`` comes from the archive's meta.
    """
    view = (await _locked(store, session, workspace_id, actor)).view
    known = next((each for each in view.snapshots if each.archive_key == archive.archive_key), None)
    if known is not None:
        return await rename(session, workspace_id, known.id, name, actor=actor, store=store), known.id
    _check_room(view, new=True)
    archive = bound(view, archive)
    # In this transaction: the GC deletes only what it recorded before, and reads what is kept first.
    if await store.orphans_among(session, [archive.archive_key]):
        raise SnapshotRefused("This archive is not kept any longer: it is about to be removed.")
    kept = Snapshot(
        uuid7(), name, archive.archive_key, archive.created_at, sha256=archive.sha256, sizes=archive.sizes
    )
    made = (*view.snapshots, kept)
    await _write(
        store, session, view, CauseCode.SNAPSHOT_KEPT, wanted=view.snapshot_as, made=made, actor=actor
    )
    return await _reread(store, session, workspace_id), kept.id


async def rename(
    session: Session,
    workspace_id: UUID,
    snapshot_id: UUID,
    name: str,
    *,
    actor: Actor,
    store: IntentStore = control,
) -> WorkspaceRecord:
    """Rename a snapshot, also one that is not made yet. Raises ``NotFound``."""
    view = (await _locked(store, session, workspace_id, actor)).view
    wanted = view.snapshot_as
    if wanted is not None and wanted.id == snapshot_id:
        wanted = replace(wanted, name=name)
    elif domain.find(view.snapshots, snapshot_id) is None:
        raise NotFound
    made = tuple(replace(each, name=name) if each.id == snapshot_id else each for each in view.snapshots)
    await _write(store, session, view, CauseCode.SNAPSHOT_RENAMED, wanted=wanted, made=made, actor=actor)
    return await _reread(store, session, workspace_id)


async def delete(
    session: Session, workspace_id: UUID, snapshot_id: UUID, *, actor: Actor, store: IntentStore = control
) -> WorkspaceRecord:
    """Delete a snapshot: its archive is kept no longer than any other. One that is not made yet is cancelled.

    An archiving that has begun ends first. Idempotent: one that is not there changes nothing.
    """
    record = await _locked(store, session, workspace_id, actor)
    view = record.view
    wanted = view.snapshot_as
    if wanted is not None and wanted.id == snapshot_id:
        await _write(
            store, session, view, CauseCode.SNAPSHOT_CANCELLED, wanted=None, made=view.snapshots, actor=actor
        )
    elif domain.find(view.snapshots, snapshot_id) is not None:
        made = tuple(each for each in view.snapshots if each.id != snapshot_id)
        await _write(store, session, view, CauseCode.SNAPSHOT_DELETED, wanted=wanted, made=made, actor=actor)
    else:
        return record
    return await _reread(store, session, workspace_id)


def _check_state(view: WorkspaceView) -> None:
    if view.in_error:
        raise SnapshotRefused("The workspace is in error; look at that first.")
    if view.desired_state is DesiredState.RUNNING:
        raise SnapshotRefused("Snapshots are taken of a sleeping home: stop the workspace first.")
    new = view.observed_status is ObservedStatus.PENDING and view.operation is Operation.NONE
    if view.archive_key is None and view.restore_from is None and new:
        raise SnapshotRefused("It has no home yet: start it once.")


def _check_room(view: WorkspaceView, *, new: bool) -> None:
    if new and len(view.snapshots) >= MAX_SNAPSHOTS:
        raise SnapshotRefused(f"It has {MAX_SNAPSHOTS} snapshots already. Delete one first.")


def _archive_is_home(view: WorkspaceView) -> bool:
    """Whether the current archive is all there is of the home: no volume counts, and none is being made."""
    if view.archive_key is None or view.restore_from is not None or view.home.volume:
        return False
    if view.observed_status is ObservedStatus.PENDING:
        return view.operation in (Operation.NONE, Operation.RESTORING, Operation.ARCHIVING)
    return not view.volume_is_trusted


async def _write(
    store: IntentStore,
    session: Session,
    view: WorkspaceView,
    code: CauseCode,
    *,
    wanted: WantedSnapshot | None,
    made: Snapshots,
    actor: Actor,
) -> None:
    await store.set_actor(session, actor.label, Cause(code).text)
    await store.set_snapshots(session, view.id, wanted=wanted, made=made)
    await store.append_audit(
        session,
        actor=actor.label,
        action=f"workspace.{code.value}",
        subject=str(view.id),
        detail={"snapshots": len(made), "wanted": str(wanted.id) if wanted is not None else None},
    )


async def _locked(store: IntentStore, session: Session, workspace_id: UUID, actor: Actor) -> WorkspaceRecord:
    record = workspaces.visible(await store.find_locked(session, workspace_id), actor)
    if record.view.deleted_at is not None:
        raise WorkspaceDeleted(workspace_id)
    return record


async def _reread(store: IntentStore, session: Session, workspace_id: UUID) -> WorkspaceRecord:
    record = await store.find(session, workspace_id)
    assert record is not None, "rows are never removed"
    return record
