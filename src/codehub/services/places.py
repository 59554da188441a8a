"""Give out running places: take one, wait for one, admit who waits.

All of it is decided in here, under the limits' lock (``store/workspaces/limits``) by the rules of ``domain/limits`` and
``domain/start_queue``. Whoever is refused may wait in the start queue, which is a column of the row and so survives
whatever restarts. Places get free in many ways (a stop, a deletion, an error), none of which looks at the queue: the
TTL manager does, each second while somebody waits, and admits through ``admit``.

Lock order, everywhere: limits, then rows, the lowest id first. A process that dies in here leaves nothing: PostgreSQL
rolls back and releases all of them, and the next look at the queue finds the same.
"""

from dataclasses import dataclass
from uuid import UUID

from codehub.domain.causes import Cause, CauseCode
from codehub.domain.home import at_recovery
from codehub.domain.limits import LimitKind, RunningLimits, Usage, exceeded
from codehub.domain.start_queue import StartQueue, admissible, exceeded_behind
from codehub.domain.states import DesiredState
from codehub.services.actors import Actor
from codehub.services.errors import LimitReached
from codehub.services.intent_store import IntentStore
from codehub.store import control
from codehub.store.db.session import Session
from codehub.store.workspaces.records import WorkspaceRecord

QUEUE = Actor("queue", is_admin=True)
AT_ONCE = 20
"""Admitted per transaction: the lock is released after a few dozen statements."""


@dataclass(frozen=True)
class Asking:
    """Who asks for a place, and for which workspace. ``freed``: one of theirs that gave its place up for this one."""

    owner_id: UUID
    workspace_id: UUID | None = None
    freed: UUID | None = None


async def take_place(
    store: IntentStore, session: Session, asking: Asking, limits: RunningLimits, *, actor: Actor, cause: Cause
) -> None:
    """Set actor and cause, and raise ``LimitReached`` unless one more may run.

    Exact under ``lock_limits``: no other transaction takes a place meanwhile. Those who wait come first, unless the
    place is one that this person has just freed for it.
    """
    owner_id = asking.owner_id
    used = await store.usage_for(session, owner_id, actor=actor.label, cause=cause.text)
    user, everyone = Usage(used.user, limits.per_user), Usage(used.total, limits.in_all)
    kind = exceeded(user=user, everyone=everyone)
    if kind is None and used.queued and asking.freed is None:
        queue = await store.load_start_queue(session)
        if asking.workspace_id not in [each.workspace_id for each in admissible(queue, limits)]:
            kind = exceeded_behind(queue, owner_id, limits, user=user, everyone=everyone)
    if kind is not None:
        usage = user if kind is LimitKind.USER else everyone
        raise LimitReached(kind, usage, await store.running_of(session, owner_id))


async def wait_for_place(
    store: IntentStore, session: Session, record: WorkspaceRecord, *, actor: Actor
) -> WorkspaceRecord:
    """Put a locked row into the start queue. Called again it keeps its place there."""
    if record.view.is_queued:
        return record
    await store.set_actor(session, actor.label, Cause(CauseCode.QUEUED).text)
    await store.set_queued(session, record.view.id, queued=True)
    await store.append_audit(
        session, actor=actor.label, action="workspace.queue", subject=str(record.view.id)
    )
    return await _reread(store, session, record.view.id)


async def leave_queue(
    store: IntentStore, session: Session, record: WorkspaceRecord, *, actor: Actor
) -> WorkspaceRecord:
    """Take a locked row out of the start queue; the desired state stays."""
    await store.set_actor(session, actor.label, Cause(CauseCode.ASKED_TO_STOP).text)
    await store.set_queued(session, record.view.id, queued=False)
    await store.append_audit(
        session, actor=actor.label, action="workspace.queue.leave", subject=str(record.view.id)
    )
    return await _reread(store, session, record.view.id)


async def admit(
    session: Session, *, limits: RunningLimits, store: IntentStore = control
) -> tuple[list[UUID], StartQueue]:
    """Start who is next, as far as there are places; return them, and the queue as it was.

    Compare-and-set: each row is read again under its lock, and who left the queue meanwhile is passed over; their
    place is given with the next call.
    """
    await store.lock_limits(session)
    queue = await store.load_start_queue(session)
    chosen = admissible(queue, limits)[:AT_ONCE]
    admitted = []
    for workspace_id in sorted(each.workspace_id for each in chosen):
        record = await store.find_locked(session, workspace_id)
        if record is None or not record.view.is_queued:
            continue
        await store.set_actor(session, QUEUE.label, Cause(CauseCode.PLACE_FREE).text)
        if record.view.in_error and record.view.owner_may_lift_error:  # as a start by the owner does
            await store.recover(session, workspace_id, home=at_recovery(record.view))
        await store.set_desired(
            session, workspace_id, DesiredState.RUNNING, expected=record.view.desired_state
        )
        await store.append_audit(
            session, actor=QUEUE.label, action="workspace.desired.running", subject=str(workspace_id)
        )
        admitted.append(workspace_id)
    return admitted, queue


async def _reread(store: IntentStore, session: Session, workspace_id: UUID) -> WorkspaceRecord:
    record = await store.find(session, workspace_id)
    assert record is not None, "rows are never removed"
    return record
