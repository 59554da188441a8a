"""Expressions of the generated columns of ``workspaces``, each with an index.

With 100 000 workspaces a tick may only touch the rows it is about. Each frequent query therefore reads a
generated column with a partial index over it, instead of repeating the condition:

- ``due_lane``: whether this row needs a step, and in which lane. The lanes are separate because they have
  slots of their own: a thousand homes waiting for a storage slot must not delay one start.
- ``due_since``: since when; the oldest goes first.
- ``archive_due_at``: when its archive TTL ends, if nothing changes.
- ``holds_place``: whether it counts against the limits of running workspaces.
- ``watched``: whether the Observer may find anything but "nothing there" for it.
- ``status``: the one word people read.

These are pre-filters. ``domain/plan`` and ``domain/ttl`` decide: a row selected here that they skip costs one
read; a row not selected here is never planned. A test compares both over every combination of the axes.
Expressions must be immutable: enums compare with literals (a cast of an enum to text is not immutable), and
times are added in UTC.
"""

MARKED = "coalesce((home_ctx ->> 'volume') = 'true', false)"
TRUSTED = "(archive_key IS NULL OR (home_ctx ->> 'restore_marker') IS NOT DISTINCT FROM archive_key)"
CHOSEN = "restore_from IS NOT NULL"
SNAPSHOT_WANTED = "snapshot_as IS NOT NULL"
TERMINAL = "coalesce((error_info ->> 'is_terminal') = 'true', false)"

DUE_LANE = f"""
CASE
  WHEN operation <> 'NONE' THEN NULL
  WHEN deleted_at IS NOT NULL THEN CASE WHEN observed_status <> 'DELETED' THEN 'control' END
  WHEN health_status = 'ERROR' OR {TERMINAL} THEN NULL
  WHEN observed_status = 'PENDING' THEN CASE
    WHEN {MARKED} OR {CHOSEN} THEN 'control'
    WHEN desired_state = 'PENDING' THEN NULL
    WHEN archive_key IS NULL THEN 'control'
    ELSE 'storage' END
  WHEN observed_status = 'STANDBY' THEN CASE
    WHEN NOT {TRUSTED} THEN CASE WHEN {CHOSEN} THEN 'control' ELSE 'storage' END
    WHEN NOT {MARKED} THEN 'control'
    WHEN {CHOSEN} OR {SNAPSHOT_WANTED} THEN 'storage'
    WHEN desired_state = 'RUNNING' THEN 'control'
    WHEN desired_state = 'PENDING' THEN 'storage' END
  WHEN observed_status = 'RUNNING' AND ({CHOSEN} OR desired_state <> 'RUNNING' OR {TRUSTED} AND NOT {MARKED})
    THEN 'control'
END
"""

DUE_SINCE = "coalesce(deleted_at, last_retry_at, last_access_at)"

ARCHIVE_DUE_AT = f"""
CASE WHEN deleted_at IS NULL AND desired_state = 'STANDBY' AND observed_status = 'STANDBY'
  AND health_status = 'OK' AND operation = 'NONE' AND archive_ttl_seconds > 0 AND NOT {TERMINAL}
THEN greatest(
  ((last_access_at AT TIME ZONE 'UTC') + archive_ttl_seconds * interval '1 second') AT TIME ZONE 'UTC',
  awake_until)
END
"""

# A stop or a delete frees its place when the desired state is written, because the Reconciler is certain to act on
# it. In error it does not act, so a workspace that still runs keeps its place; so does one with another operation in
# flight. A workspace in terminal error that does not run holds none: only recover continues it, and takes a place.
HOLDS_PLACE = f"""
(desired_state = 'RUNNING' AND deleted_at IS NULL
  AND NOT ({TERMINAL} AND operation = 'NONE' AND observed_status <> 'RUNNING'))
OR (observed_status = 'RUNNING' AND CASE
  WHEN operation = 'NONE' THEN deleted_at IS NULL AND (health_status = 'ERROR' OR {TERMINAL})
  ELSE operation NOT IN ('STOPPING', 'DELETING') END)
"""

# All other rows are at rest: nothing was observed, nothing is wanted or in flight. Such a row only matters to the
# Observer if the runtime reports something of it, and then it is loaded by id.
WATCHED = """
operation <> 'NONE' OR (observed_status <> 'DELETED' AND (
  observed_status <> 'PENDING' OR health_status <> 'OK'
  OR error_info IS NOT NULL OR deleted_at IS NOT NULL OR observed_at IS NULL))
"""

STATUS = f"""
CASE
  WHEN observed_status = 'DELETED' THEN 'deleted'
  WHEN deleted_at IS NOT NULL THEN 'deleting'
  WHEN health_status = 'ERROR' OR {TERMINAL} THEN 'error'
  WHEN operation = 'PROVISIONING' THEN 'provisioning'
  WHEN operation = 'RESTORING' THEN 'restoring'
  WHEN operation = 'STARTING' THEN 'starting'
  WHEN operation = 'STOPPING' THEN 'stopping'
  WHEN operation = 'ARCHIVING' THEN 'archiving'
  WHEN operation = 'DELETING' THEN 'deleting'
  WHEN observed_status = 'RUNNING' THEN 'running'
  WHEN observed_status = 'STANDBY' THEN 'standby'
  WHEN archive_key IS NOT NULL THEN 'archived'
  ELSE 'new'
END
"""
