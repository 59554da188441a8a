"""Add ``tags`` and ``pinned``: a person's own order among their workspaces.

Both have constant defaults: nothing is rewritten, and replicas of an older release go on without them. People see both,
so they count a version and are told in the timeline: the trigger's functions and its condition name them.
"""

from alembic import op

revision = "0011"
down_revision = "0008"
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
    "queued_at",
)
VISIBLE_AFTER = (*VISIBLE_BEFORE, "tags", "pinned")

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
    op.execute("ALTER TABLE workspaces ADD COLUMN tags text[] DEFAULT '{}' NOT NULL")
    op.execute("ALTER TABLE workspaces ADD COLUMN pinned boolean DEFAULT false NOT NULL")
    _tell_changes_of(VISIBLE_AFTER)


def downgrade() -> None:
    """Tags and pins are lost: the older release knows none."""
    _tell_changes_of(VISIBLE_BEFORE)
    op.execute("ALTER TABLE workspaces DROP COLUMN tags")
    op.execute("ALTER TABLE workspaces DROP COLUMN pinned")


def _tell_changes_of(columns: tuple[str, ...]) -> None:
    changed = " OR ".join(f"OLD.{column} IS DISTINCT FROM NEW.{column}" for column in columns)
    op.execute(COUNT_VERSION.format(changed=changed))
    op.execute(TELL_CHANGE.format(names=", ".join(f"'{column}'" for column in columns)))
    op.execute("DROP TRIGGER workspaces_count_version_on_update ON workspaces")
    op.execute(COUNT_ON_UPDATE.format(changed=changed))
