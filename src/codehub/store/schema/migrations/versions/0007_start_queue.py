"""Add ``queued_at``: since when a workspace waits for a running place.

Nullable and without a default, so nothing is rewritten, and nobody waits at first. People see it, so it counts a
version and is told in the timeline: the trigger's functions and its condition name it.
"""

from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

VISIBLE_BEFORE = (
    "desired_state",
    "observed_status",
    "health_status",
    "operation",
    "error_info",
    "archive_key",
    "deleted_at",
    "name",
    "description",
    "memo",
    "image_ref",
    "standby_ttl_seconds",
    "archive_ttl_seconds",
    "awake_until",
    "restore_from",
)
VISIBLE_AFTER = (*VISIBLE_BEFORE, "queued_at")

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
    op.execute("ALTER TABLE workspaces ADD COLUMN queued_at timestamptz")
    op.execute("CREATE INDEX workspaces_queued ON workspaces (queued_at) WHERE queued_at IS NOT NULL")
    _tell_changes_of(VISIBLE_AFTER)


def downgrade() -> None:
    """Whoever waits has to ask again: the older release refuses, and knows no queue."""
    _tell_changes_of(VISIBLE_BEFORE)
    op.execute("ALTER TABLE workspaces DROP COLUMN queued_at")


def _tell_changes_of(columns: tuple[str, ...]) -> None:
    changed = " OR ".join(f"OLD.{column} IS DISTINCT FROM NEW.{column}" for column in columns)
    op.execute(COUNT_VERSION.format(changed=changed))
    op.execute(TELL_CHANGE.format(names=", ".join(f"'{column}'" for column in columns)))
    op.execute("DROP TRIGGER workspaces_count_version_on_update ON workspaces")
    op.execute(COUNT_ON_UPDATE.format(changed=changed))
