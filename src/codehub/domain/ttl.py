"""Decide when an idle workspace is stopped, and an unused one archived.

Losing the data in Redis may keep a workspace running too long; it must never stop one that is in use. So
nothing is lowered where a timer may have been lost, where activity could not be read, or where too many
workspaces seem idle at once.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

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

    @property
    def in_use(self) -> bool:
        return self.connections > 0 or self.requests > 0 or self.idle_timer is not None


@dataclass(frozen=True)
class Transition:
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


def sleeps_now(ws: WorkspaceView, *, activity: Activity, now: datetime) -> bool:
    """Whether an idle workspace is due to be stopped: RUNNING → STANDBY.

    ``last_access_at`` is set when a start completes, so a workspace that just came up has its whole idle
    period to be connected to, even if its timer was lost. ``last_seen_at`` is read beside the timer,
    because the timer was set with the TTL of that time, which may have been raised since.
    """
    used_at = _last_used_at(ws, activity)
    just_used = now - used_at <= timedelta(seconds=ws.standby_ttl_seconds)
    return _may_sleep(ws) and not just_used and not _kept_awake(ws, now=now) and not activity.in_use


def archives_now(ws: WorkspaceView, *, now: datetime) -> bool:
    """Whether an unused workspace is due to be archived: STANDBY → PENDING."""
    if not _may_archive(ws) or _is_ahead(ws.awake_until, now):
        return False
    return now - ws.last_access_at > timedelta(seconds=ws.archive_ttl_seconds)


def is_mass_idle(*, newly_idle: int, running: int) -> bool:
    """Whether more fell idle at once than people cause.

    Redis or a proxy may have lost data then, so the TTL manager holds.
    """
    return newly_idle > max(MASS_IDLE_FLOOR, running * MASS_IDLE_SHARE)


def next_transition(ws: WorkspaceView, *, activity: Activity | None, now: datetime) -> Transition | None:
    """The next automatic change, shown to people ("sleeps in 4 min").

    An estimate; the TTL manager decides when it is due.
    """
    if _may_sleep(ws):
        if activity is None or activity.connections > 0:
            return None  # in use, or its activity is not known
        at = max(
            now + (activity.idle_timer or timedelta(0)),
            _last_used_at(ws, activity) + timedelta(seconds=ws.standby_ttl_seconds),
        )
        for held in (ws.awake_until, ws.active_until):
            at = max(at, held) if held else at
        return Transition(DesiredState.STANDBY, at, idle_cause(ws))
    if _may_archive(ws):
        at = max(ws.last_access_at + timedelta(seconds=ws.archive_ttl_seconds), now)
        at = max(at, ws.awake_until) if ws.awake_until else at
        return Transition(DesiredState.PENDING, at, forgotten_cause(ws))
    return None


def _last_used_at(ws: WorkspaceView, activity: Activity) -> datetime:
    return max(ws.last_access_at, activity.last_seen_at or ws.last_access_at)


def idle_cause(ws: WorkspaceView) -> str:
    return Cause(CauseCode.IDLE, ws.standby_ttl_seconds).text


def forgotten_cause(ws: WorkspaceView) -> str:
    return Cause(CauseCode.FORGOTTEN, ws.archive_ttl_seconds).text


def _may_sleep(ws: WorkspaceView) -> bool:
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


def _kept_awake(ws: WorkspaceView, *, now: datetime) -> bool:
    return _is_ahead(ws.awake_until, now) or _is_ahead(ws.active_until, now)


def _is_ahead(moment: datetime | None, now: datetime) -> bool:
    return moment is not None and moment > now
