"""The only writer of intent: every change of what is wanted, whoever wants it, goes through here.

Each function is one use case inside the caller's transaction: the API commits its request's session, a
coordinator passes its own fenced one. All of them take the row's lock, look again, and only then write, so
of two changes in the same moment the later one is judged against what the earlier one left.

Lock order, everywhere: limits, then the row. A process that dies in here leaves nothing: PostgreSQL
rolls back and frees both.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from codehub.domain.causes import Cause, CauseCode
from codehub.domain.home import at_recovery
from codehub.domain.limits import LimitKind, Usage, exceeded, holds_place
from codehub.domain.states import DesiredState
from codehub.domain.workspace import WorkspaceView
from codehub.kit.ids import uuid7
from codehub.services.errors import LimitReached, NotForOwners, NotFound, WantedArchived, WorkspaceDeleted
from codehub.store.accounts import audit
from codehub.store.db import statements
from codehub.store.db.context import set_actor
from codehub.store.db.session import Session
from codehub.store.workspaces import intents, queries
from codehub.store.workspaces import limits as places
from codehub.store.workspaces.records import WorkspaceRecord


@dataclass(frozen=True)
class Actor:
    """Who wants it, as the timeline and the audit name them: ``user:ann``, ``ttl``, ``proxy``."""

    label: str
    user_id: UUID | None = None
    is_admin: bool = False

    def may_see(self, owner_id: UUID) -> bool:
        return self.is_admin or self.user_id == owner_id


@dataclass(frozen=True)
class RunningLimits:
    per_user: int = 2
    in_all: int = 100


@dataclass(frozen=True)
class NewWorkspace:
    name: str
    image_ref: str
    description: str = ""
    memo: str = ""
    standby_ttl_seconds: int = 300
    archive_ttl_seconds: int = 86400
    start: bool = False


async def get(session: Session, workspace_id: UUID, *, actor: Actor) -> WorkspaceRecord:
    """The one place that decides who may see a workspace. DELETED ones are shown to admins only."""
    record = await queries.find(session, workspace_id)
    return visible(record, actor)


async def create(
    session: Session, new: NewWorkspace, *, owner_id: UUID, actor: Actor, limits: RunningLimits
) -> WorkspaceRecord:
    """Raises ``NameTaken`` or, with ``start`` and no place left, ``LimitReached``; then nothing exists."""
    cause = Cause(CauseCode.CREATED)
    if new.start:
        await places.lock_limits(session)
        await _take_place(session, owner_id, limits, actor=actor, cause=cause)
    else:
        await _set_audit_context(session, actor, cause)
    record = await intents.create(
        session,
        workspace_id=uuid7(),
        owner_id=owner_id,
        name=new.name,
        image_ref=new.image_ref,
        description=new.description,
        memo=new.memo,
        standby_ttl_seconds=new.standby_ttl_seconds,
        archive_ttl_seconds=new.archive_ttl_seconds,
        desired_state=DesiredState.RUNNING if new.start else DesiredState.PENDING,
    )
    await _audit(session, actor, "workspace.create", record.view.id, name=new.name, start=new.start)
    return record


async def start(
    session: Session,
    workspace_id: UUID,
    *,
    actor: Actor,
    limits: RunningLimits,
    cause: Cause | None = None,
) -> WorkspaceRecord:
    """Set the desired state RUNNING. Asking for what is already wanted takes no new place and changes nothing."""
    # The limits' lock comes first, also for what may turn out to be a no-op: one order for everybody.
    await places.lock_limits(session)
    record = await _locked(session, workspace_id, actor)
    in_the_way = record.view.in_error and record.view.owner_may_lift_error
    if record.view.desired_state is DesiredState.RUNNING and not in_the_way:
        return record
    cause = cause or Cause(CauseCode.ASKED_TO_START)
    if holds_place(record.view):  # one that failed to stop still has its own
        await _set_audit_context(session, actor, cause)
    else:
        await _take_place(session, record.view.owner_id, limits, actor=actor, cause=cause)
    if in_the_way:  # an archiving that failed keeps nobody from their home
        await _lift(session, record, actor=actor)
    return await _set_desired_state(session, record, DesiredState.RUNNING, actor=actor)


async def stop(
    session: Session, workspace_id: UUID, *, actor: Actor, cause: Cause | None = None
) -> WorkspaceRecord:
    """Set the desired state STANDBY. Refused where PENDING is wanted: a stop must not restore anything."""
    record = await _locked(session, workspace_id, actor)
    if record.view.desired_state is DesiredState.STANDBY:
        return record
    if record.view.desired_state is DesiredState.PENDING:
        raise WantedArchived
    await _set_audit_context(session, actor, cause or Cause(CauseCode.ASKED_TO_STOP))
    return await _set_desired_state(session, record, DesiredState.STANDBY, actor=actor)


async def archive(
    session: Session, workspace_id: UUID, *, actor: Actor, cause: Cause | None = None
) -> WorkspaceRecord:
    """Set the desired state PENDING: from wherever it is, into the archive.

    Asked again after archiving was given up, it is tried now.
    """
    record = await _locked(session, workspace_id, actor)
    if record.view.desired_state is DesiredState.PENDING:
        if not record.view.archiving_given_up:
            return record
        await _set_audit_context(session, actor, cause or Cause(CauseCode.ASKED_TO_ARCHIVE))
        await _lift(session, record, actor=actor)
        return await _reread(session, workspace_id)
    await _set_audit_context(session, actor, cause or Cause(CauseCode.ASKED_TO_ARCHIVE))
    return await _set_desired_state(session, record, DesiredState.PENDING, actor=actor)


async def lower(
    session: Session,
    seen: WorkspaceView,
    desired: DesiredState,
    *,
    actor: Actor,
    cause: str,
    still_due: Callable[[WorkspaceView], Awaitable[bool]],
) -> bool:
    """The TTL manager's change: a compare-and-set against what it read, judged again under the row's lock.

    A person who pressed start or connected in the same moment has changed the row or the activity by now,
    and wins. Not a use of the workspace: ``last_access_at`` stays.
    """
    await set_actor(session, actor.label, cause)
    record = await queries.find_locked(session, seen.id)
    if (
        record is None
        or record.view.desired_state is not seen.desired_state
        or not await still_due(record.view)
    ):
        return False
    written = await intents.set_desired(session, seen.id, desired, expected=seen.desired_state, touch=False)
    return written is not None


async def edit(
    session: Session, workspace_id: UUID, changes: dict[str, str | int], *, actor: Actor
) -> WorkspaceRecord:
    """Name, description, memo, TTLs. Raises ``NameTaken``."""
    record = await _locked(session, workspace_id, actor)
    if not changes:
        return record
    await _set_audit_context(session, actor, Cause(CauseCode.EDITED))
    edited = await intents.update_details(session, workspace_id, **changes)
    assert edited is not None, "the row is locked"
    await _audit(session, actor, "workspace.edit", workspace_id, fields=sorted(changes))
    return edited


async def keep_awake(
    session: Session, workspace_id: UUID, *, for_: timedelta, actor: Actor
) -> WorkspaceRecord:
    """Nothing puts it to sleep or into the archive before then; zero takes the promise back."""
    await _locked(session, workspace_id, actor)
    until = await statements.now(session) + for_ if for_ else None
    await _set_audit_context(session, actor, Cause(CauseCode.KEPT_AWAKE if until else CauseCode.MAY_SLEEP))
    await intents.set_awake_until(session, workspace_id, until)
    await _audit(session, actor, "workspace.keep_awake", workspace_id, seconds=int(for_.total_seconds()))
    return await _reread(session, workspace_id)


async def delete(session: Session, workspace_id: UUID, *, actor: Actor) -> WorkspaceRecord:
    """The person's last word. Idempotent."""
    record = visible(await queries.find_locked(session, workspace_id), actor)
    if record.view.deleted_at is not None:
        return record
    await _set_audit_context(session, actor, Cause(CauseCode.ASKED_TO_DELETE))
    await intents.mark_deleted(session, workspace_id)
    await _audit(session, actor, "workspace.delete", workspace_id, name=record.name)
    return await _reread(session, workspace_id)


async def recover(
    session: Session, workspace_id: UUID, *, actor: Actor, limits: RunningLimits
) -> WorkspaceRecord:
    """Lift an error; the Observer turns health back and the plan goes on. None there: no change.

    Administrators lift any, owners what stopped an archiving of theirs (``NotForOwners`` otherwise). What was
    broken held no running place: where RUNNING is wanted, one is taken now, or ``LimitReached`` raised.
    """
    await places.lock_limits(session)
    record = await _locked(session, workspace_id, actor)
    view = record.view
    error = view.error_info
    if error is None or not (error.is_terminal or view.archiving_given_up):
        return record  # what is still being retried needs nobody's help
    if not actor.is_admin and not view.owner_may_lift_error:
        raise NotForOwners
    cause = Cause(CauseCode.ASKED_TO_RECOVER)
    if view.desired_state is DesiredState.RUNNING and not holds_place(view):
        await _take_place(session, view.owner_id, limits, actor=actor, cause=cause)
    else:
        await _set_audit_context(session, actor, cause)
    await _lift(session, record, actor=actor)
    return await _reread(session, workspace_id)


async def _lift(session: Session, record: WorkspaceRecord, *, actor: Actor) -> None:
    """Why was said before."""
    view = record.view
    await intents.recover(session, view.id, home=at_recovery(view))
    reason = view.error_info.reason.value if view.error_info else ""
    await _audit(session, actor, "workspace.recover", view.id, reason=reason)


async def _set_desired_state(
    session: Session, record: WorkspaceRecord, desired: DesiredState, *, actor: Actor
) -> WorkspaceRecord:
    """Why was said before."""
    written = await intents.set_desired(session, record.view.id, desired, expected=record.view.desired_state)
    assert written is not None, "the row is locked"
    await _audit(session, actor, f"workspace.desired.{desired.value.lower()}", record.view.id)
    return written


async def _set_audit_context(session: Session, actor: Actor, cause: Cause) -> None:
    await set_actor(session, actor.label, cause.text)


async def _locked(session: Session, workspace_id: UUID, actor: Actor) -> WorkspaceRecord:
    record = visible(await queries.find_locked(session, workspace_id), actor)
    if record.view.deleted_at is not None:
        raise WorkspaceDeleted(workspace_id)
    return record


async def _reread(session: Session, workspace_id: UUID) -> WorkspaceRecord:
    record = await queries.find(session, workspace_id)
    assert record is not None, "rows are never removed"
    return record


def visible(record: WorkspaceRecord | None, actor: Actor) -> WorkspaceRecord:
    """The rule behind ``get``, for whoever has read the row already. Raises ``NotFound``."""
    if record is None or not actor.may_see(record.view.owner_id):
        raise NotFound
    if record.status == "deleted" and not actor.is_admin:
        raise NotFound
    return record


async def _take_place(
    session: Session, owner_id: UUID, limits: RunningLimits, *, actor: Actor, cause: Cause
) -> None:
    """Say why (``_set_audit_context``), and raise unless one more may run.

    Exact under ``lock_limits``: nobody else takes a place meanwhile.
    """
    used = await places.usage_for(session, owner_id, actor=actor.label, cause=cause.text)
    user, everyone = Usage(used.user, limits.per_user), Usage(used.total, limits.in_all)
    kind = exceeded(user=user, everyone=everyone)
    if kind is not None:
        usage = user if kind is LimitKind.USER else everyone
        raise LimitReached(kind, usage, await places.running_of(session, owner_id))


async def _audit(session: Session, actor: Actor, action: str, workspace_id: UUID, **detail: object) -> None:
    await audit.append(session, actor=actor.label, action=action, subject=str(workspace_id), detail=detail)
