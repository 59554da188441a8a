"""When an idle workspace goes to sleep, and a forgotten one into its archive.

Losing what Redis knows may keep a workspace awake too long; it must never put one to sleep that is in
use. So every doubt is an answer "no": a timer that may have been lost, an activity that could not be
read, too many that seem idle at once.
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
    """What the proxies reported of one workspace."""

    connections: int = 0  # open WebSockets
    requests: int = 0  # proxies with requests in flight, or a moment ago
    idle_timer: timedelta | None = None  # time left; None: expired or never set
    last_seen_at: datetime | None = None
    kind: str | None = None

    @property
    def in_use(self) -> bool:
        return self.connections > 0 or self.requests > 0 or self.idle_timer is not None


@dataclass(frozen=True)
class Transition:
    """What happens next by itself, when, and why."""

    to: DesiredState
    at: datetime
    why: str


def can_be_believed(memory_age_seconds: float, *, standby_ttl_seconds: float) -> bool:
    """Whether "nobody uses it" means anything in a memory of activity that is this old.

    Two things may be missing in a young one. Use that is over would count for the TTL. Use that goes on is
    told again with the next renewal of its lease, however short the TTL: after the length of a lease every
    living proxy has renewed, or cannot reach Redis and has said so in PostgreSQL (``active_until``) by then.
    """
    return memory_age_seconds > max(standby_ttl_seconds, LEASE_SECONDS)


def sleeps_now(ws: WorkspaceView, *, activity: Activity, now: datetime) -> bool:
    """Idle: RUNNING → STANDBY.

    ``last_access_at`` is set when a start completes, so a workspace that just came up has its whole idle
    period to be connected to, whatever became of its timer. ``last_seen_at`` is asked beside the timer,
    which was set with the TTL of its moment: that may have been raised since.
    """
    used_at = _last_used_at(ws, activity)
    just_used = now - used_at <= timedelta(seconds=ws.standby_ttl_seconds)
    return _may_sleep(ws) and not just_used and not _kept_awake(ws, now=now) and not activity.in_use


def archives_now(ws: WorkspaceView, *, now: datetime) -> bool:
    """Forgotten: STANDBY → PENDING."""
    if not _may_archive(ws) or _is_ahead(ws.awake_until, now):
        return False
    return now - ws.last_access_at > timedelta(seconds=ws.archive_ttl_seconds)


def is_mass_idle(*, newly_idle: int, running: int) -> bool:
    """More fell idle at once than people do: rather Redis or a proxy lost its memory. Hold."""
    return newly_idle > max(MASS_IDLE_FLOOR, running * MASS_IDLE_SHARE)


def next_transition(ws: WorkspaceView, *, activity: Activity | None, now: datetime) -> Transition | None:
    """What people are told: "sleeps in 4 min". An estimate; the TTL manager decides when it is due."""
    if _may_sleep(ws):
        if activity is None or activity.connections > 0:
            return None  # in use, or nobody can tell: no promise
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
