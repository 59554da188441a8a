"""Change intent: the only writer of the desired state.

Each function is one use case inside the caller's transaction: the API commits its request's session, a
coordinator passes its own fenced one. All of them lock the row, check again, and only then write, so of two
concurrent changes the later one is checked against the result of the earlier one.

``store`` is PostgreSQL's (``store/control``) unless the caller passes its own, as coordinators do.

Lock order, everywhere: limits, then the row. A process that dies in here leaves nothing: PostgreSQL rolls
back and releases both.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from codehub.domain.causes import Cause, CauseCode
from codehub.domain.home import at_recovery, at_return_to_archive
from codehub.domain.limits import RunningLimits, holds_place
from codehub.domain.states import DesiredState
from codehub.domain.workspace import WorkspaceView
from codehub.kit.ids import uuid7
from codehub.services.actors import Actor
from codehub.services.errors import (
    HomeNotGivenUp,
    LimitReached,
    NotForOwners,
    NotFound,
    WantedArchived,
    WorkspaceDeleted,
)
from codehub.services.intent_store import IntentStore
from codehub.services.places import Asking, leave_queue, take_place, wait_for_place
from codehub.store import control
from codehub.store.db.session import Session
from codehub.store.workspaces.records import WorkspaceRecord


@dataclass(frozen=True)
class WorkspaceValues:
    """The values of a workspace to create."""

    name: str
    image_ref: str
    description: str = ""
    memo: str = ""
    tags: tuple[str, ...] = ()
    standby_ttl_seconds: int = 300
    archive_ttl_seconds: int = 86400
    start: bool = False
    queue: bool = False


async def get(
    session: Session, workspace_id: UUID, *, actor: Actor, store: IntentStore = control
) -> WorkspaceRecord:
    """Return a workspace the actor may see; DELETED ones for admins only.

    Raises ``NotFound``. ``visible`` is the only place that decides this.
    """
    record = await store.find(session, workspace_id)
    return visible(record, actor)


async def create(
    session: Session,
    new: WorkspaceValues,
    *,
    owner_id: UUID,
    actor: Actor,
    limits: RunningLimits,
    store: IntentStore = control,
) -> WorkspaceRecord:
    """Create a workspace. Raises ``NameTaken``, or ``LimitReached`` with ``start``.

    Then nothing was written. With ``queue`` it is created all the same, and waits for a place.
    """
    cause = Cause(CauseCode.CREATED)
    waits = False
    if new.start:
        await store.lock_limits(session)
        try:
            await take_place(store, session, Asking(owner_id), limits, actor=actor, cause=cause)
        except LimitReached:
            if not new.queue:
                raise
            waits = True
    else:
        await _set_audit_context(store, session, actor, cause)
    record = await store.create(
        session,
        workspace_id=uuid7(),
        owner_id=owner_id,
        name=new.name,
        image_ref=new.image_ref,
        description=new.description,
        memo=new.memo,
        tags=new.tags,
        standby_ttl_seconds=new.standby_ttl_seconds,
        archive_ttl_seconds=new.archive_ttl_seconds,
        desired_state=DesiredState.RUNNING if new.start and not waits else DesiredState.PENDING,
    )
    await _audit(store, session, actor, "workspace.create", record.view.id, name=new.name, start=new.start)
    return await wait_for_place(store, session, record, actor=actor) if waits else record


async def start(
    session: Session,
    workspace_id: UUID,
    *,
    actor: Actor,
    limits: RunningLimits,
    cause: Cause | None = None,
    queue: bool = False,
    instead_of: UUID | None = None,
    store: IntentStore = control,
) -> WorkspaceRecord:
    """Set the desired state RUNNING. Idempotent: no second place is taken.

    Raises ``LimitReached``; with ``queue``, or if it waits already, it waits for a place instead. ``instead_of``: a
    workspace of the same owner that is stopped in this transaction, which must be this call's own: a refusal has to
    roll it back.
    """
    # The limits' lock is taken first, also for a possible no-op: one lock order, no deadlock.
    await store.lock_limits(session)
    if instead_of is not None:
        await store.lock_in_order(session, [workspace_id, instead_of])
    record = await _locked(store, session, workspace_id, actor)
    view = record.view
    lifts_error = view.in_error and view.owner_may_lift_error
    if view.desired_state is DesiredState.RUNNING and not lifts_error:
        return record
    cause = cause or Cause(CauseCode.ASKED_TO_START)
    if holds_place(view):  # one that failed to stop still holds its place
        await _set_audit_context(store, session, actor, cause)
    else:
        if instead_of is not None:
            await _make_room(store, session, instead_of, view, actor=actor)
        asking = Asking(view.owner_id, view.id, freed=instead_of)
        try:
            await take_place(store, session, asking, limits, actor=actor, cause=cause)
        except LimitReached:
            # What is wanted RUNNING already cannot wait: its error is lifted when there is a place.
            may_wait = queue and view.desired_state is not DesiredState.RUNNING
            if not may_wait and not view.is_queued:
                raise
            return await wait_for_place(store, session, record, actor=actor)
    if lifts_error:  # a failed archiving must not keep the owner from starting
        await _lift(store, session, record, actor=actor)
    return await _set_desired_state(store, session, record, DesiredState.RUNNING, actor=actor)


async def stop(
    session: Session,
    workspace_id: UUID,
    *,
    actor: Actor,
    cause: Cause | None = None,
    store: IntentStore = control,
) -> WorkspaceRecord:
    """Set the desired state STANDBY. Idempotent. One that waits for a place leaves the queue, and that is all.

    Raises ``WantedArchived`` where PENDING is desired: a stop must not restore anything.
    """
    record = await _locked(store, session, workspace_id, actor)
    if record.view.is_queued:
        return await leave_queue(store, session, record, actor=actor)
    if record.view.desired_state is DesiredState.STANDBY:
        return record
    if record.view.desired_state is DesiredState.PENDING:
        raise WantedArchived
    await _set_audit_context(store, session, actor, cause or Cause(CauseCode.ASKED_TO_STOP))
    return await _set_desired_state(store, session, record, DesiredState.STANDBY, actor=actor)


async def archive(
    session: Session,
    workspace_id: UUID,
    *,
    actor: Actor,
    cause: Cause | None = None,
    store: IntentStore = control,
) -> WorkspaceRecord:
    """Set the desired state PENDING: archive it, from any state. Idempotent.

    Called again after archiving was given up, it is retried now. One that waits for a place leaves the queue.
    """
    record = await _locked(store, session, workspace_id, actor)
    if record.view.is_queued:
        record = await leave_queue(store, session, record, actor=actor)
    if record.view.desired_state is DesiredState.PENDING:
        if not record.view.archiving_given_up:
            return record
        await _set_audit_context(store, session, actor, cause or Cause(CauseCode.ASKED_TO_ARCHIVE))
        await _lift(store, session, record, actor=actor)
        return await _reread(store, session, workspace_id)
    await _set_audit_context(store, session, actor, cause or Cause(CauseCode.ASKED_TO_ARCHIVE))
    return await _set_desired_state(store, session, record, DesiredState.PENDING, actor=actor)


async def lower(
    session: Session,
    seen: WorkspaceView,
    desired: DesiredState,
    *,
    actor: Actor,
    cause: str,
    still_due: Callable[[WorkspaceView], Awaitable[bool]],
    store: IntentStore = control,
) -> bool:
    """Lower the desired state for the TTL manager. Compare-and-set.

    Compared with what the TTL manager read, and checked again under the row's lock: a person who started or
    connected in the meantime has changed the row or the activity, and wins. Not a use of the workspace:
    ``last_access_at`` stays.
    """
    await store.set_actor(session, actor.label, cause)
    record = await store.find_locked(session, seen.id)
    if (
        record is None
        or record.view.desired_state is not seen.desired_state
        or not await still_due(record.view)
    ):
        return False
    written = await store.set_desired(session, seen.id, desired, expected=seen.desired_state, touch=False)
    return written is not None


async def edit(
    session: Session,
    workspace_id: UUID,
    changes: dict[str, str | int | list[str]],
    *,
    actor: Actor,
    store: IntentStore = control,
) -> WorkspaceRecord:
    """Change name, description, memo, tags, pin or TTLs. Raises ``NameTaken``."""
    record = await _locked(store, session, workspace_id, actor)
    if not changes:
        return record
    await _set_audit_context(store, session, actor, Cause(CauseCode.EDITED))
    edited = await store.update_details(session, workspace_id, **changes)
    assert edited is not None, "the row is locked"
    await _audit(store, session, actor, "workspace.edit", workspace_id, fields=sorted(changes))
    return edited


async def keep_awake(
    session: Session, workspace_id: UUID, *, for_: timedelta, actor: Actor, store: IntentStore = control
) -> WorkspaceRecord:
    """Prevent standby and archiving for ``for_``; zero clears it."""
    await _locked(store, session, workspace_id, actor)
    until = await store.now(session) + for_ if for_ else None
    await _set_audit_context(
        store, session, actor, Cause(CauseCode.KEPT_AWAKE if until else CauseCode.MAY_SLEEP)
    )
    await store.set_awake_until(session, workspace_id, until)
    await _audit(
        store, session, actor, "workspace.keep_awake", workspace_id, seconds=int(for_.total_seconds())
    )
    return await _reread(store, session, workspace_id)


async def delete(
    session: Session, workspace_id: UUID, *, actor: Actor, store: IntentStore = control
) -> WorkspaceRecord:
    """Mark the workspace deleted, which is irreversible. Idempotent."""
    record = visible(await store.find_locked(session, workspace_id), actor)
    if record.view.deleted_at is not None:
        return record
    await _set_audit_context(store, session, actor, Cause(CauseCode.ASKED_TO_DELETE))
    await store.mark_deleted(session, workspace_id)
    await _audit(store, session, actor, "workspace.delete", workspace_id, name=record.name)
    return await _reread(store, session, workspace_id)


async def recover(
    session: Session, workspace_id: UUID, *, actor: Actor, limits: RunningLimits, store: IntentStore = control
) -> WorkspaceRecord:
    """Lift a terminal error or a given-up archiving; no change without one.

    The Observer then sets health to OK and the plan continues. Administrators lift any error, owners those
    that stopped an archiving (``NotForOwners`` otherwise). A workspace in terminal error that does not run
    holds no place: where RUNNING is desired, one is taken now, or ``LimitReached`` raised.
    """
    await store.lock_limits(session)
    record = await _locked(store, session, workspace_id, actor)
    view = record.view
    error = view.error_info
    if error is None or not (error.is_terminal or view.archiving_given_up):
        return record  # the Reconciler still retries it
    if not actor.is_admin and not view.owner_may_lift_error:
        raise NotForOwners
    cause = Cause(CauseCode.ASKED_TO_RECOVER)
    if view.desired_state is DesiredState.RUNNING and not holds_place(view):
        await take_place(store, session, Asking(view.owner_id, view.id), limits, actor=actor, cause=cause)
    else:
        await _set_audit_context(store, session, actor, cause)
    await _lift(store, session, record, actor=actor)
    return await _reread(store, session, workspace_id)


async def return_to_archive(
    session: Session,
    workspace_id: UUID,
    *,
    archive_key: str,
    actor: Actor,
    limits: RunningLimits,
    store: IntentStore = control,
) -> WorkspaceRecord:
    """Give the home on a lost node up: what is newer than this archive is lost, and the workspace goes on from it.

    ``archive_key``: the archive the person was shown. Raises ``HomeNotGivenUp`` unless the node that has the home is
    unavailable and this is still the current archive. The desired state stays; a running place is taken as by
    ``recover``.
    """
    await store.lock_limits(session)
    record = await _locked(store, session, workspace_id, actor)
    view = record.view
    if not view.home_node_is_unavailable or view.archive_key is None or view.archive_key != archive_key:
        raise HomeNotGivenUp
    cause = Cause(CauseCode.RETURNED_TO_ARCHIVE)
    if view.desired_state is DesiredState.RUNNING and not holds_place(view):
        await take_place(store, session, Asking(view.owner_id, view.id), limits, actor=actor, cause=cause)
    else:
        await _set_audit_context(store, session, actor, cause)
    await store.recover(session, view.id, home=at_return_to_archive(view))
    await _audit(store, session, actor, "workspace.return_to_archive", view.id, archive_key=archive_key)
    return await _reread(store, session, workspace_id)


async def _make_room(
    store: IntentStore, session: Session, other_id: UUID, view: WorkspaceView, *, actor: Actor
) -> None:
    """Stop another workspace of the same owner, whose place this one takes."""
    other = await _locked(store, session, other_id, actor)
    if other.view.owner_id != view.owner_id or other.view.id == view.id:
        raise NotFound
    if other.view.desired_state is DesiredState.RUNNING:
        await _set_audit_context(store, session, actor, Cause(CauseCode.MADE_ROOM))
        await _set_desired_state(store, session, other, DesiredState.STANDBY, actor=actor)


async def _lift(store: IntentStore, session: Session, record: WorkspaceRecord, *, actor: Actor) -> None:
    """Clear the error and audit it. The caller has set actor and cause."""
    view = record.view
    await store.recover(session, view.id, home=at_recovery(view))
    reason = view.error_info.reason.value if view.error_info else ""
    await _audit(store, session, actor, "workspace.recover", view.id, reason=reason)


async def _set_desired_state(
    store: IntentStore, session: Session, record: WorkspaceRecord, desired: DesiredState, *, actor: Actor
) -> WorkspaceRecord:
    """Write the desired state and audit it. The caller has set actor and cause."""
    written = await store.set_desired(session, record.view.id, desired, expected=record.view.desired_state)
    assert written is not None, "the row is locked"
    await _audit(store, session, actor, f"workspace.desired.{desired.value.lower()}", record.view.id)
    return written


async def _set_audit_context(store: IntentStore, session: Session, actor: Actor, cause: Cause) -> None:
    await store.set_actor(session, actor.label, cause.text)


async def _locked(store: IntentStore, session: Session, workspace_id: UUID, actor: Actor) -> WorkspaceRecord:
    record = visible(await store.find_locked(session, workspace_id), actor)
    if record.view.deleted_at is not None:
        raise WorkspaceDeleted(workspace_id)
    return record


async def _reread(store: IntentStore, session: Session, workspace_id: UUID) -> WorkspaceRecord:
    record = await store.find(session, workspace_id)
    assert record is not None, "rows are never removed"
    return record


def visible(record: WorkspaceRecord | None, actor: Actor) -> WorkspaceRecord:
    """Return ``record`` if the actor may see it. Raises ``NotFound``.

    The rule behind ``get``, for callers that have read the row already.
    """
    if record is None or not actor.may_see(record.view.owner_id):
        raise NotFound
    if record.status == "deleted" and not actor.is_admin:
        raise NotFound
    return record


async def _audit(
    store: IntentStore, session: Session, actor: Actor, action: str, workspace_id: UUID, **detail: object
) -> None:
    await store.append_audit(
        session, actor=actor.label, action=action, subject=str(workspace_id), detail=detail
    )
