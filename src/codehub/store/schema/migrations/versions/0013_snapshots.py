"""Add ``snapshot_as`` and ``snapshots``: a snapshot a person asked for, and those that are kept.

Nullable and without a default. People see them, so they count a version and are told in the timeline: the trigger's
functions and its condition name them, beside what they name already. A sleeping home of which a snapshot is wanted is
due: ``due_lane`` is dropped and added for that, as by 0006, which rewrites the table once, under a lock.
"""

import re

from alembic import op
from sqlalchemy import text

revision = "0013"
down_revision = "0011"
branch_labels = None
depends_on = None

ADDED = ("snapshot_as", "snapshots")

MARKED = "coalesce((home_ctx ->> 'volume') = 'true', false)"
TRUSTED = "(archive_key IS NULL OR (home_ctx ->> 'restore_marker') IS NOT DISTINCT FROM archive_key)"
TERMINAL = "coalesce((error_info ->> 'is_terminal') = 'true', false)"
CHOSEN = "restore_from IS NOT NULL"
SNAPSHOT_WANTED = "snapshot_as IS NOT NULL"
LANE = """
    CASE
      WHEN operation <> 'NONE' THEN NULL
      WHEN deleted_at IS NOT NULL THEN CASE WHEN observed_status <> 'DELETED' THEN 'control' END
      WHEN health_status = 'ERROR' OR {terminal} THEN NULL
      WHEN observed_status = 'PENDING' THEN CASE
        WHEN {marked} OR {chosen} THEN 'control'
        WHEN desired_state = 'PENDING' THEN NULL
        WHEN archive_key IS NULL THEN 'control'
        ELSE 'storage' END
      WHEN observed_status = 'STANDBY' THEN CASE
        WHEN NOT {trusted} THEN CASE WHEN {chosen} THEN 'control' ELSE 'storage' END
        WHEN NOT {marked} THEN 'control'
        WHEN {archived_first} THEN 'storage'
        WHEN desired_state = 'RUNNING' THEN 'control'
        WHEN desired_state = 'PENDING' THEN 'storage' END
      WHEN observed_status = 'RUNNING' AND ({chosen} OR desired_state <> 'RUNNING' OR {trusted} AND NOT {marked})
        THEN 'control'
    END
"""
COMMON = {"marked": MARKED, "trusted": TRUSTED, "terminal": TERMINAL, "chosen": CHOSEN}
BEFORE = LANE.format(**COMMON, archived_first=CHOSEN)
AFTER = LANE.format(**COMMON, archived_first=f"{CHOSEN} OR {SNAPSHOT_WANTED}")

COUNT_VERSION = """
    CREATE OR REPLACE FUNCTION workspaces_count_version() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF TG_OP = 'INSERT' THEN
            NEW.version := 1;
            NEW.created_at := clock_timestamp();
            NEW.updated_at := NEW.created_at;
            RETURN NEW;
        END IF;
        NEW.version := OLD.version;
        NEW.created_at := OLD.created_at;
        NEW.updated_at := OLD.updated_at;
        IF {changed} THEN
            NEW.version := OLD.version + 1;
            NEW.updated_at := clock_timestamp();
        END IF;
        RETURN NEW;
    END $$
"""
TELL_CHANGE = """
    CREATE OR REPLACE FUNCTION workspaces_tell_change() RETURNS trigger
    LANGUAGE plpgsql SET timezone TO 'UTC' AS $$
    DECLARE
        before jsonb := CASE WHEN TG_OP = 'UPDATE' THEN to_jsonb(OLD) ELSE '{{}}'::jsonb END;
        after jsonb := to_jsonb(NEW);
        diff jsonb;
    BEGIN
        SELECT jsonb_object_agg(name, jsonb_build_array(
                   workspace_event_value(coalesce(before -> name, 'null')),
                   workspace_event_value(after -> name)))
          INTO diff
          FROM unnest(ARRAY[{names}]) AS name
         WHERE coalesce(before -> name, 'null') IS DISTINCT FROM after -> name;
        INSERT INTO workspace_events (workspace_id, version, changes, actor, cause)
        VALUES (NEW.id, NEW.version, diff,
                nullif(current_setting('codehub.actor', true), ''),
                nullif(current_setting('codehub.cause', true), ''));
        PERFORM pg_notify('workspace_changes', jsonb_build_object(
            'id', NEW.id, 'owner_id', NEW.owner_id, 'version', NEW.version,
            'changed', (SELECT jsonb_agg(name) FROM jsonb_object_keys(diff) AS name))::text);
        RETURN NULL;
    END $$
"""
COUNT_ON_UPDATE = """
    CREATE TRIGGER workspaces_count_version_on_update BEFORE UPDATE ON workspaces FOR EACH ROW
    WHEN ({changed} OR OLD.version IS DISTINCT FROM NEW.version
          OR OLD.created_at IS DISTINCT FROM NEW.created_at OR OLD.updated_at IS DISTINCT FROM NEW.updated_at)
    EXECUTE FUNCTION workspaces_count_version()
"""


def upgrade() -> None:
    op.execute("ALTER TABLE workspaces ADD COLUMN snapshot_as JSONB, ADD COLUMN snapshots JSONB")
    _make_lane_anew(AFTER)
    _tell_changes_of((*_told(), *ADDED))


def downgrade() -> None:
    """Names are lost; the archives stay for as long as their generations are kept."""
    _tell_changes_of(tuple(name for name in _told() if name not in ADDED))
    _make_lane_anew(BEFORE)
    op.execute("ALTER TABLE workspaces DROP COLUMN snapshots, DROP COLUMN snapshot_as")


def _told() -> tuple[str, ...]:
    """The columns that the trigger tells now, whichever migrations added them."""
    query = text("SELECT prosrc FROM pg_proc WHERE proname = 'workspaces_tell_change'")
    (source,) = op.get_bind().execute(query).one()
    names = re.search(r"ARRAY\[([^\]]*)\]", source)
    assert names is not None, "the function names its columns"
    return tuple(re.findall(r"'(\w+)'", names.group(1)))


def _make_lane_anew(lane: str) -> None:
    op.execute("ALTER TABLE workspaces DROP COLUMN due_lane")  # drops its index too
    op.execute(f"ALTER TABLE workspaces ADD COLUMN due_lane TEXT GENERATED ALWAYS AS ({lane}) STORED")
    op.execute(
        "CREATE INDEX workspaces_due ON workspaces (due_lane, due_since, id) WHERE due_lane IS NOT NULL"
    )


def _tell_changes_of(columns: tuple[str, ...]) -> None:
    changed = " OR ".join(f"OLD.{column} IS DISTINCT FROM NEW.{column}" for column in columns)
    op.execute(COUNT_VERSION.format(changed=changed))
    op.execute(TELL_CHANGE.format(names=", ".join(f"'{column}'" for column in columns)))
    op.execute("DROP TRIGGER workspaces_count_version_on_update ON workspaces")
    op.execute(COUNT_ON_UPDATE.format(changed=changed))
