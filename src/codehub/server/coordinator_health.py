"""Answer ``/health/coordinator``: the leaders in the cluster, and this process.

The leader, since when, its last tick and its last error come from ``system_locks`` and the locks that are held,
never from this process's memory: it may have been frozen and replaced without knowing. Only while the database
does not answer is the process's own state reported.
"""

import asyncio
from datetime import UTC, datetime
from typing import Any

from codehub.coordinators.leadership import lock_name
from codehub.server.control_plane import ControlPlane
from codehub.server.settings.tree import Settings
from codehub.store.cluster import terms as terms
from codehub.store.cluster.terms import TermRow
from codehub.store.db.session import Sessions
from codehub.store.errors import DATABASE_FAILED

COORDINATORS = ("wc", "observer", "ttl", "gc", "events")
ANSWER_WITHIN_SECONDS = 3.0


class CoordinatorHealth:
    """Reports which process leads each coordinator."""

    def __init__(self, settings: Settings, control_plane: ControlPlane | None, sessions: Sessions) -> None:
        self._settings = settings
        self._control_plane = control_plane
        self._sessions = sessions
        self._started_at = datetime.now(UTC)

    async def __call__(self) -> dict[str, Any]:
        own = self._control_plane.health() if self._control_plane is not None else {}
        rows = await self._terms()
        lock_id = self._settings.coordinator.lock_id
        coordinators = {}
        for name in COORDINATORS:
            lock = lock_name(name, lock_id=lock_id)
            mine = own.get(name, {})
            coordinators[name] = _own_health(mine) if rows is None else _leader_health(lock, mine, rows)
        return {
            "node_id": self._settings.coordinator.node_id,
            "uptime_seconds": int((datetime.now(UTC) - self._started_at).total_seconds()),
            "is_leader": any(each["is_leader"] for each in coordinators.values()),
            "coordinators": coordinators,
        }

    async def _terms(self) -> dict[str, TermRow] | None:
        """All terms; None: the database does not answer."""
        try:
            async with asyncio.timeout(ANSWER_WITHIN_SECONDS), self._sessions() as session:
                return await terms.read_terms(session)
        except DATABASE_FAILED:
            return None


def _leader_health(lock: str, own: dict[str, Any], rows: dict[str, TermRow]) -> dict[str, Any]:
    rivals = [
        {"holder_id": each.holder_id, "lock_name": each.lock_name}
        for each in terms.rivals_of(lock, rows.values())
    ]
    term = rows.get(lock)
    if term is None or not term.is_held:  # the row of a leader that has gone is out of date
        return {**_no_leader(), "rivals": rivals}
    return {
        "is_leader": own.get("epoch") == term.epoch,
        "holder_id": term.holder_id,
        "acquired_at": term.acquired_at,
        "epoch": term.epoch,
        "last_tick_at": term.last_tick_at,
        "last_error": term.last_error,
        "away": dict(term.away),
        "rivals": rivals,
    }


def _own_health(own: dict[str, Any]) -> dict[str, Any]:
    if not own.get("is_leader"):
        return {**_no_leader(), "last_error": own.get("last_error")}
    return {**_no_leader(), **own}


def _no_leader() -> dict[str, Any]:
    return {
        "is_leader": False,
        "holder_id": None,
        "acquired_at": None,
        "epoch": None,
        "last_tick_at": None,
        "last_error": None,
        "away": {},
        "rivals": [],
    }
