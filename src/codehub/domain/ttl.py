"""Decide when an idle workspace is stopped, and an unused one archived.

Losing the data in Redis may keep a workspace running too long; it must never stop one that is in use. So
nothing is lowered where a timer may have been lost, where activity could not be read, or where too many
workspaces seem idle at once.

An open connection alone is not use: a forgotten tab holds one for weeks. It counts while a person caused something
within ``UsePolicy.untouched_limit``. A workspace that works by itself counts as used (``domain/busy``).
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from codehub.domain.busy import BusySign
from codehub.domain.causes import Cause, CauseCode
from codehub.domain.states import DesiredState, HealthStatus, ObservedStatus, Operation
from codehub.domain.workspace import WorkspaceView

LEASE_SECONDS = 90.0
"""How long the lease of a connection lasts unless its proxy renews it, which it does every 30 s."""

MASS_IDLE_FLOOR = 5
MASS_IDLE_SHARE = 0.2


@dataclass(frozen=True)
class Activity:
    """Use of one workspace, as the proxies reported it."""

    connections: int = 0  # open WebSockets
    requests: int = 0  # proxies with requests in flight, or shortly before
    idle_timer: timedelta | None = None  # time left; None: expired or never set
    last_seen_at: datetime | None = None
    kind: str | None = None
    input_age: timedelta | None = None  # since a person last caused something; None: not known
    memory_age: timedelta = timedelta.max  # for how long Redis has kept what was reported

    @property
    def is_reported(self) -> bool:
        return self.connections > 0 or self.requests > 0 or self.idle_timer is not None


@dataclass(frozen=True)
class UsePolicy:
    """What counts as use, by the operator's settings."""

    untouched_limit: timedelta = timedelta(0)  # zero: an open connection counts for ever
    busy_limit: timedelta = timedelta(0)  # how long work without a person counts; zero: it does not

    @property
    def longest_untouched(self) -> timedelta | None:
        """How long an open connection counts without input; None: for ever.

        Not below the length of a lease: input is reported by then even if Redis was away or lost its data.
        """
        return max(self.untouched_limit, timedelta(seconds=LEASE_SECONDS)) if self.untouched_limit else None


class AwakeBecause(StrEnum):
    """Why a running workspace is not put to sleep now."""

    NEVER = "never"  # its TTL is 0
    KEPT = "kept"  # a person asked for it
    OPEN = "open"  # in a window, and touched within the limit
    BUSY = "busy"  # it works by itself
    USED = "used"  # a short time ago: its idle period runs
    UNKNOWN = "unknown"  # activity cannot be read or recorded


@dataclass(frozen=True)
class Awake:
    """Why a running workspace is awake, and since when that is so."""

    because: AwakeBecause
    since: datetime | None = None
    busy: BusySign | None = None
    until: datetime | None = None  # busy: it does not count after that


@dataclass(frozen=True)
class NextChange:
    """The next automatic change of the desired state, when and why."""

    to: DesiredState
    at: datetime
    why: str


def memory_is_complete(memory_age_seconds: float, *, standby_ttl_seconds: float) -> bool:
    """Whether Redis has kept activity long enough that its absence means "idle".

    A younger Redis may lack two things. Use that has ended counts for the length of the TTL. Use that goes on
    is reported again with the next renewal of its lease, however short the TTL: after the length of a lease
    every living proxy has renewed, or cannot reach Redis and has set ``active_until`` in PostgreSQL.
    """
    return memory_age_seconds > max(standby_ttl_seconds, LEASE_SECONDS)


def touched_at(ws: WorkspaceView, activity: Activity, *, now: datetime) -> datetime:
    """When a person last caused something, at the latest.

    Redis may have lost the report of an input that came before its data begins, so nothing counts as untouched for
    longer than Redis remembers. Ages are Redis's own: its clock and the database's may differ.
    """
    ages = [now - ws.last_access_at, activity.memory_age]
    if activity.input_age is not None:
        ages.append(activity.input_age)
    return now - max(min(ages), timedelta(0))


def is_untouched(ws: WorkspaceView, activity: Activity, *, now: datetime, policy: UsePolicy) -> bool:
    """Whether nobody has touched it for so long that open connections do not count.

    Never if no input was ever reported: a proxy of an older release does not, and what is not known keeps awake.
    """
    longest = policy.longest_untouched
    if longest is None or activity.input_age is None:
        return False
    return now - touched_at(ws, activity, now=now) > longest


def sleeps_now(ws: WorkspaceView, *, activity: Activity, now: datetime, policy: UsePolicy) -> bool:
    """Whether an idle workspace is due to be stopped: RUNNING → STANDBY.

    ``last_access_at`` is set when a start completes, so a workspace that just came up has its whole idle
    period to be connected to, even if its timer was lost. ``last_seen_at`` is read beside the timer,
    because the timer was set with the TTL of that time, which may have been raised since.
    """
    if not may_sleep(ws) or kept_awake(ws, now=now) or is_busy(ws, now=now):
        return False
    ttl = timedelta(seconds=ws.standby_ttl_seconds)
    if is_untouched(ws, activity, now=now, policy=policy):  # renewals of its leases are no use either
        return now - touched_at(ws, activity, now=now) > ttl
    return now - _last_used_at(ws, activity) > ttl and not activity.is_reported


def archives_now(ws: WorkspaceView, *, now: datetime) -> bool:
    """Whether an unused workspace is due to be archived: STANDBY → PENDING.

    Not while it waits for a running place: its person wants it.
    """
    at = archive_due_at(ws)
    return at is not None and at < now and not ws.is_queued


def archive_due_at(ws: WorkspaceView) -> datetime | None:
    """When its archive TTL is over, if nothing changes; None: it is not archived by a TTL now."""
    if not _may_archive(ws):
        return None
    at = ws.last_access_at + timedelta(seconds=ws.archive_ttl_seconds)
    return max(at, ws.awake_until) if ws.awake_until else at


def is_mass_idle(*, newly_idle: int, running: int) -> bool:
    """Whether more fell idle at once than people cause.

    Redis or a proxy may have lost data then, so the TTL manager holds.
    """
    return newly_idle > max(MASS_IDLE_FLOOR, running * MASS_IDLE_SHARE)


def why_awake(
    ws: WorkspaceView, *, activity: Activity | None, now: datetime, policy: UsePolicy
) -> Awake | None:
    """Why a running workspace is awake, shown to people; None: it does not run, or is about to sleep."""
    if ws.observed_status is not ObservedStatus.RUNNING or ws.desired_state is not DesiredState.RUNNING:
        return None
    if ws.standby_ttl_seconds == 0:
        return Awake(AwakeBecause.NEVER)
    if _is_ahead(ws.awake_until, now):
        return Awake(AwakeBecause.KEPT)
    if activity is None or _is_ahead(ws.active_until, now):
        return Awake(AwakeBecause.UNKNOWN)
    if sleeps_now(ws, activity=activity, now=now, policy=policy):
        return None
    touched = touched_at(ws, activity, now=now)
    if activity.connections > 0 and not is_untouched(ws, activity, now=now, policy=policy):
        return Awake(AwakeBecause.OPEN, touched)
    if ws.busy is not None and is_busy(ws, now=now):
        limit = ws.busy.since + policy.busy_limit
        return Awake(AwakeBecause.BUSY, ws.busy.since, ws.busy.sign, until=limit)
    return Awake(AwakeBecause.USED, touched)


def next_change(
    ws: WorkspaceView, *, activity: Activity | None, now: datetime, policy: UsePolicy
) -> NextChange | None:
    """The next automatic change, shown to people ("sleeps in 4 min").

    An estimate; the TTL manager decides when it is due.
    """
    if may_sleep(ws):
        if activity is None:
            return None
        at = _sleep_due_at(ws, activity, now=now, policy=policy)
        if at is None:
            return None
        busy_until = ws.busy.since + policy.busy_limit if ws.busy and is_busy(ws, now=now) else None
        for held in (ws.awake_until, ws.active_until, busy_until):
            at = max(at, held) if held else at
        why = busy_cause(policy) if at == busy_until else sleep_cause(ws, activity, policy=policy)
        return NextChange(DesiredState.STANDBY, max(at, now), why)
    due_at = archive_due_at(ws)
    if due_at is not None and not ws.is_queued:
        return NextChange(DesiredState.PENDING, max(due_at, now), forgotten_cause(ws))
    return None


def _sleep_due_at(
    ws: WorkspaceView, activity: Activity, *, now: datetime, policy: UsePolicy
) -> datetime | None:
    ttl = timedelta(seconds=ws.standby_ttl_seconds)
    longest = policy.longest_untouched
    untouched = None
    if longest is not None and activity.input_age is not None:
        untouched = touched_at(ws, activity, now=now) + max(longest, ttl)
    if activity.connections > 0:
        return untouched
    at = max(now + (activity.idle_timer or timedelta(0)), _last_used_at(ws, activity) + ttl)
    return at if untouched is None else min(at, untouched)


def used_at_latest(ws: WorkspaceView, activity: Activity, *, now: datetime, policy: UsePolicy) -> datetime:
    """When a person last used it, at the latest. An untouched tab is no use; what Redis lost may have been."""
    if is_untouched(ws, activity, now=now, policy=policy):
        return touched_at(ws, activity, now=now)
    age = min(now - _last_used_at(ws, activity), activity.memory_age)
    return now - max(age, timedelta(0))


def _last_used_at(ws: WorkspaceView, activity: Activity) -> datetime:
    return max(ws.last_access_at, activity.last_seen_at or ws.last_access_at)


def idle_cause(ws: WorkspaceView) -> str:
    return Cause(CauseCode.IDLE, ws.standby_ttl_seconds).text


def sleep_cause(ws: WorkspaceView, activity: Activity, *, policy: UsePolicy) -> str:
    """Why it is put to sleep: idle, or open and untouched."""
    longest = policy.longest_untouched
    if activity.connections > 0 and longest is not None:
        return Cause(CauseCode.UNTOUCHED, round(longest.total_seconds())).text
    return idle_cause(ws)


def busy_cause(policy: UsePolicy) -> str:
    return Cause(CauseCode.BUSY, round(policy.busy_limit.total_seconds())).text


def forgotten_cause(ws: WorkspaceView) -> str:
    return Cause(CauseCode.FORGOTTEN, ws.archive_ttl_seconds).text


def may_sleep(ws: WorkspaceView) -> bool:
    """Whether it runs, is at rest and has a TTL: idle long enough, it is stopped."""
    return (
        ws.standby_ttl_seconds > 0
        and ws.desired_state is DesiredState.RUNNING
        and ws.observed_status is ObservedStatus.RUNNING
        and _is_quiet(ws)
    )


def _may_archive(ws: WorkspaceView) -> bool:
    return (
        ws.archive_ttl_seconds > 0
        and ws.desired_state is DesiredState.STANDBY
        and ws.observed_status is ObservedStatus.STANDBY
        and _is_quiet(ws)
    )


def _is_quiet(ws: WorkspaceView) -> bool:
    return ws.deleted_at is None and ws.health_status is HealthStatus.OK and ws.operation is Operation.NONE


def kept_awake(ws: WorkspaceView, *, now: datetime) -> bool:
    """Whether a person, or a proxy without Redis, holds it awake."""
    return _is_ahead(ws.awake_until, now) or _is_ahead(ws.active_until, now)


def is_busy(ws: WorkspaceView, *, now: datetime) -> bool:
    """Whether it was busy at the last sample, and the next is not overdue."""
    return ws.busy is not None and ws.busy.until > now


def _is_ahead(moment: datetime | None, now: datetime) -> bool:
    return moment is not None and moment > now
