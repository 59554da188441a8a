"""Add up how long workspaces existed, ran and had no disk, from the timeline.

The timeline has every change of ``observed_status`` with its time, for deleted workspaces too. A workspace runs from
the change to RUNNING until the next change; it exists from its creation until its person deleted it. It has no disk
from the change from STANDBY to PENDING until the next change; its size is that of its latest archive, unpacked
(archives of older releases: as stored, which is less).
"""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import BigInteger

from codehub.store.db.session import Session
from codehub.store.db.typed_text import typed_text

MILLISECONDS = 3_600_000  # of an hour

# For each workspace the change before the period (what it was when the period began) and those within, by the index of
# the timeline: the cost follows what happened in the period, not the age of the installation.
_HOURS = typed_text(
    """
    WITH periods AS (
        SELECT id,
               coalesce(home_ctx -> 'sizes' ->> 'home_bytes', home_ctx -> 'sizes' ->> 'bytes', '0')::numeric AS bytes,
               deleted_at IS NULL AND observed_status = 'PENDING' AND archive_key IS NOT NULL AS is_archived,
               greatest(created_at, CAST(:since AS timestamptz)) AS since,
               least(coalesce(deleted_at, CAST(:until AS timestamptz)), CAST(:until AS timestamptz)) AS until
          FROM workspaces
         WHERE (CAST(:owner_id AS uuid) IS NULL OR owner_id = CAST(:owner_id AS uuid))
           AND created_at < CAST(:until AS timestamptz)
           AND (deleted_at IS NULL OR deleted_at > CAST(:since AS timestamptz))
    ), changes AS (
        SELECT periods.id, periods.bytes, periods.since, periods.until, event.at, event.status, event.before,
               lead(event.at) OVER (PARTITION BY periods.id ORDER BY event.seq) AS next_at
          FROM periods CROSS JOIN LATERAL (
            (SELECT seq, at, changes -> 'observed_status' ->> 1 AS status, changes -> 'observed_status' ->> 0 AS before
               FROM workspace_events
              WHERE workspace_id = periods.id AND at < periods.since
                AND jsonb_exists(changes, 'observed_status')
              ORDER BY seq DESC LIMIT 1)
            UNION ALL
            (SELECT seq, at, changes -> 'observed_status' ->> 1, changes -> 'observed_status' ->> 0
               FROM workspace_events
              WHERE workspace_id = periods.id AND at >= periods.since AND at < periods.until
                AND jsonb_exists(changes, 'observed_status'))
          ) AS event
    )
    SELECT (SELECT coalesce(1000 * sum(extract(epoch FROM until - since)), 0)::int8 FROM periods),
           (SELECT coalesce(1000 * sum(extract(epoch FROM least(coalesce(next_at, until), until)
                                                   - greatest(at, since))), 0)::int8
              FROM changes WHERE status = 'RUNNING'),
           (SELECT coalesce(sum(bytes / 1000000 * extract(epoch FROM least(coalesce(next_at, until), until)
                                                            - greatest(at, since))), 0)::int8
              FROM changes WHERE status = 'PENDING' AND before = 'STANDBY'),
           (SELECT coalesce(sum(bytes), 0)::int8 FROM periods WHERE is_archived)
    """,
    BigInteger(),
    BigInteger(),
    BigInteger(),
    BigInteger(),
)


@dataclass(frozen=True)
class Hours:
    """Of all workspaces of a person, or of everybody."""

    existed: float
    ran: float
    gb_hours: float = 0.0
    """Gigabytes times the hours they were on no disk."""
    gb_archived: float = 0.0
    """Gigabytes that are on no disk now."""

    @property
    def saved(self) -> float:
        """Hours that workspaces which are never put to sleep would have run in addition."""
        return max(0.0, self.existed - self.ran)


async def add_up(session: Session, *, owner_id: UUID | None, since: datetime, until: datetime) -> Hours:
    """Add up a period. ``owner_id`` None: workspaces of everybody."""
    params = {"owner_id": owner_id, "since": since, "until": until}
    existed, ran, megabyte_seconds, archived = (await session.exec(_HOURS, params)).one()
    return Hours(
        existed=existed / MILLISECONDS,
        ran=ran / MILLISECONDS,
        gb_hours=megabyte_seconds / 1000 / 3600,
        gb_archived=archived / 1e9,
    )
