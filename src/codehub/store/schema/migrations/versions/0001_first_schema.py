"""Create the first schema.

Workspaces and their timeline, users with sessions and tokens, leaders, orphans, audit. Written as SQL because
operators compare it with their database. ``codehub/store/schema/derived.py`` explains the generated columns.
"""

from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

ENUMS = {
    "desired_state": ("PENDING", "STANDBY", "RUNNING"),
    "observed_status": ("PENDING", "STANDBY", "RUNNING", "DELETED"),
    "health_status": ("OK", "ERROR"),
    "operation": ("NONE", "PROVISIONING", "RESTORING", "STARTING", "STOPPING", "ARCHIVING", "DELETING"),
    "role": ("admin", "user"),
}

TABLES = (
    """
    CREATE TABLE archive_orphans (
        path TEXT NOT NULL,
        first_seen_at timestamptz DEFAULT clock_timestamp() NOT NULL,
        PRIMARY KEY (path)
    )
    """,
    """
    CREATE TABLE audit_log (
        seq BIGINT GENERATED ALWAYS AS IDENTITY,
        at timestamptz DEFAULT clock_timestamp() NOT NULL,
        actor TEXT NOT NULL,
        action TEXT NOT NULL,
        subject TEXT,
        detail JSONB DEFAULT '{}'::jsonb NOT NULL,
        PRIMARY KEY (seq)
    )
    """,
    """
    CREATE TABLE installation (
        singleton BOOLEAN DEFAULT true NOT NULL,
        id UUID NOT NULL,
        secret BYTEA NOT NULL,
        created_at timestamptz DEFAULT clock_timestamp() NOT NULL,
        PRIMARY KEY (singleton),
        CONSTRAINT installation_is_one_row CHECK (singleton)
    )
    """,
    """
    CREATE TABLE system_locks (
        lock_name TEXT NOT NULL,
        holder_id TEXT NOT NULL,
        acquired_at timestamptz DEFAULT clock_timestamp() NOT NULL,
        epoch BIGINT NOT NULL,
        last_tick_at timestamptz,
        detail JSONB DEFAULT '{}'::jsonb NOT NULL,
        PRIMARY KEY (lock_name)
    )
    """,
    """
    CREATE TABLE users (
        id UUID NOT NULL,
        username TEXT NOT NULL,
        password_hash TEXT NOT NULL,
        role role DEFAULT 'user' NOT NULL,
        created_at timestamptz DEFAULT clock_timestamp() NOT NULL,
        disabled_at timestamptz,
        PRIMARY KEY (id)
    )
    """,
    """
    CREATE TABLE workspace_events (
        seq BIGINT GENERATED ALWAYS AS IDENTITY,
        workspace_id UUID NOT NULL,
        version BIGINT NOT NULL,
        at timestamptz DEFAULT clock_timestamp() NOT NULL,
        changes JSONB NOT NULL,
        actor TEXT,
        cause TEXT,
        PRIMARY KEY (seq)
    )
    """,
    """
    CREATE TABLE api_tokens (
        id UUID NOT NULL,
        user_id UUID NOT NULL,
        name TEXT NOT NULL,
        secret_hash TEXT NOT NULL,
        created_at timestamptz DEFAULT clock_timestamp() NOT NULL,
        expires_at timestamptz,
        last_used_at timestamptz,
        revoked_at timestamptz,
        PRIMARY KEY (id),
        FOREIGN KEY(user_id) REFERENCES users (id) ON DELETE CASCADE,
        UNIQUE (secret_hash)
    )
    """,
    """
    CREATE TABLE sessions (
        id UUID NOT NULL,
        user_id UUID NOT NULL,
        secret_hash TEXT NOT NULL,
        created_at timestamptz DEFAULT clock_timestamp() NOT NULL,
        last_seen_at timestamptz DEFAULT clock_timestamp() NOT NULL,
        idle_expires_at timestamptz NOT NULL,
        expires_at timestamptz NOT NULL,
        PRIMARY KEY (id),
        FOREIGN KEY(user_id) REFERENCES users (id) ON DELETE CASCADE,
        UNIQUE (secret_hash)
    )
    """,
    """
    CREATE TABLE workspaces (
        id UUID NOT NULL,
        owner_id UUID NOT NULL,
        name TEXT NOT NULL,
        description TEXT DEFAULT '' NOT NULL,
        memo TEXT DEFAULT '' NOT NULL,
        image_ref TEXT NOT NULL,
        desired_state desired_state DEFAULT 'PENDING' NOT NULL,
        standby_ttl_seconds INTEGER DEFAULT '300' NOT NULL,
        archive_ttl_seconds INTEGER DEFAULT '86400' NOT NULL,
        last_access_at timestamptz DEFAULT clock_timestamp() NOT NULL,
        awake_until timestamptz,
        active_until timestamptz,
        deleted_at timestamptz,
        observed_status observed_status DEFAULT 'PENDING' NOT NULL,
        health_status health_status DEFAULT 'OK' NOT NULL,
        observed_at timestamptz,
        operation operation DEFAULT 'NONE' NOT NULL,
        op_id UUID,
        op_seq BIGINT DEFAULT '0' NOT NULL,
        op_started_at timestamptz,
        op_acted_at timestamptz,
        archive_key TEXT,
        error_count INTEGER DEFAULT '0' NOT NULL,
        error_info JSONB,
        last_retry_at timestamptz,
        previous_status observed_status,
        home_ctx JSONB,
        version BIGINT DEFAULT '1' NOT NULL,
        created_at timestamptz DEFAULT clock_timestamp() NOT NULL,
        updated_at timestamptz DEFAULT clock_timestamp() NOT NULL,
        due_lane TEXT GENERATED ALWAYS AS (
            CASE
              WHEN operation <> 'NONE' THEN NULL
              WHEN deleted_at IS NOT NULL THEN CASE WHEN observed_status <> 'DELETED' THEN 'control' END
              WHEN health_status = 'ERROR' OR coalesce((error_info ->> 'is_terminal') = 'true', false) THEN NULL
              WHEN observed_status = 'PENDING' THEN CASE
                WHEN coalesce((home_ctx ->> 'volume') = 'true', false) THEN 'control'
                WHEN desired_state = 'PENDING' THEN NULL
                WHEN archive_key IS NULL THEN 'control'
                ELSE 'storage' END
              WHEN observed_status = 'STANDBY' THEN CASE
                WHEN archive_key IS NOT NULL AND (home_ctx ->> 'restore_marker') IS DISTINCT FROM archive_key THEN 'storage'
                WHEN desired_state = 'RUNNING' THEN 'control'
                WHEN desired_state = 'PENDING' THEN 'storage' END
              WHEN observed_status = 'RUNNING' AND desired_state <> 'RUNNING' THEN 'control'
            END
        ) STORED,
        due_since timestamptz GENERATED ALWAYS AS (coalesce(deleted_at, last_retry_at, last_access_at)) STORED,
        archive_due_at timestamptz GENERATED ALWAYS AS (
            CASE WHEN deleted_at IS NULL AND desired_state = 'STANDBY' AND observed_status = 'STANDBY'
              AND health_status = 'OK' AND operation = 'NONE' AND archive_ttl_seconds > 0 AND NOT coalesce((error_info ->> 'is_terminal') = 'true', false)
            THEN greatest(
              ((last_access_at AT TIME ZONE 'UTC') + archive_ttl_seconds * interval '1 second') AT TIME ZONE 'UTC',
              awake_until)
            END
        ) STORED,
        holds_place BOOLEAN GENERATED ALWAYS AS (
            (desired_state = 'RUNNING' AND deleted_at IS NULL)
            OR (observed_status = 'RUNNING' AND CASE
              WHEN operation = 'NONE' THEN deleted_at IS NULL AND (health_status = 'ERROR' OR coalesce((error_info ->> 'is_terminal') = 'true', false))
              ELSE operation NOT IN ('STOPPING', 'DELETING') END)
        ) STORED,
        watched BOOLEAN GENERATED ALWAYS AS (
            operation <> 'NONE' OR (observed_status <> 'DELETED' AND (
              observed_status <> 'PENDING' OR health_status <> 'OK'
              OR error_info IS NOT NULL OR deleted_at IS NOT NULL OR observed_at IS NULL))
        ) STORED,
        status TEXT GENERATED ALWAYS AS (
            CASE
              WHEN observed_status = 'DELETED' THEN 'deleted'
              WHEN deleted_at IS NOT NULL THEN 'deleting'
              WHEN health_status = 'ERROR' OR coalesce((error_info ->> 'is_terminal') = 'true', false) THEN 'error'
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
        ) STORED,
        PRIMARY KEY (id),
        CONSTRAINT workspaces_operation_has_identity CHECK (operation = 'NONE' OR (op_id IS NOT NULL AND op_started_at IS NOT NULL)),
        CONSTRAINT workspaces_ttl_not_negative CHECK (standby_ttl_seconds >= 0 AND archive_ttl_seconds >= 0),
        FOREIGN KEY(owner_id) REFERENCES users (id)
    )
    """,
)

INDEXES = (
    "CREATE UNIQUE INDEX users_username ON users (lower(username))",
    "CREATE INDEX workspace_events_timeline ON workspace_events (workspace_id, seq)",
    "CREATE INDEX api_tokens_of_user ON api_tokens (user_id, id)",
    "CREATE INDEX sessions_idle_expires_at ON sessions (idle_expires_at)",
    "CREATE INDEX sessions_of_user ON sessions (user_id)",
    "CREATE INDEX workspaces_archive_due ON workspaces (archive_due_at) WHERE archive_due_at IS NOT NULL",
    "CREATE INDEX workspaces_due ON workspaces (due_lane, due_since, id) WHERE due_lane IS NOT NULL",
    "CREATE INDEX workspaces_holding_place ON workspaces (owner_id) WHERE holds_place",
    "CREATE INDEX workspaces_in_flight ON workspaces (id) WHERE operation <> 'NONE'",
    "CREATE INDEX workspaces_list ON workspaces (id) WHERE observed_status <> 'DELETED'",
    "CREATE INDEX workspaces_list_by_status ON workspaces (status, id)",
    "CREATE INDEX workspaces_list_of_owner ON workspaces (owner_id, id) WHERE observed_status <> 'DELETED'",
    "CREATE UNIQUE INDEX workspaces_live_name ON workspaces (owner_id, name) WHERE deleted_at IS NULL",
    "CREATE INDEX workspaces_observed_at ON workspaces (observed_at) WHERE observed_status <> 'DELETED'",
    "CREATE INDEX workspaces_standby_candidates ON workspaces (id) WHERE desired_state = 'RUNNING' AND observed_status = 'RUNNING' AND health_status = 'OK' AND operation = 'NONE' AND deleted_at IS NULL AND standby_ttl_seconds > 0",
    "CREATE INDEX workspaces_watched ON workspaces (id) WHERE watched",
)

# The columns people can see. Changes of other columns neither raise the version nor notify: NOTIFY serialises
# commits, so stamping 1000 rows every tick must not go through here.
VISIBLE = (
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
)
_VISIBLE_CHANGED = " OR ".join(f"OLD.{column} IS DISTINCT FROM NEW.{column}" for column in VISIBLE)
_VISIBLE_ARRAY = ", ".join(f"'{column}'" for column in VISIBLE)

FUNCTIONS = (
    # version, created_at and updated_at are written by the database: values in a statement are dropped.
    f"""
    CREATE FUNCTION workspaces_count_version() RETURNS trigger LANGUAGE plpgsql AS $$
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
        IF {_VISIBLE_CHANGED} THEN
            NEW.version := OLD.version + 1;
            NEW.updated_at := clock_timestamp();
        END IF;
        RETURN NEW;
    END $$
    """,
    # Long values are cut: a whole memo or a container's log would be repeated in each entry of the timeline.
    """
    CREATE FUNCTION workspace_event_value(value jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
        SELECT CASE
            WHEN jsonb_typeof(value) = 'string' AND length(value #>> '{}') > 200
                THEN to_jsonb(left(value #>> '{}', 200) || '…')
            WHEN jsonb_typeof(value) = 'object'
                THEN (value - 'context') || CASE WHEN value ? 'message'
                    THEN jsonb_build_object('message', left(value ->> 'message', 500)) ELSE '{}'::jsonb END
            ELSE value
        END
    $$
    """,
    # UTC, so that times in the timeline do not depend on the time zone of the writing session.
    f"""
    CREATE FUNCTION workspaces_tell_change() RETURNS trigger LANGUAGE plpgsql SET timezone TO 'UTC' AS $$
    DECLARE
        before jsonb := CASE WHEN TG_OP = 'UPDATE' THEN to_jsonb(OLD) ELSE '{{}}'::jsonb END;
        after jsonb := to_jsonb(NEW);
        diff jsonb;
    BEGIN
        SELECT jsonb_object_agg(name, jsonb_build_array(
                   workspace_event_value(coalesce(before -> name, 'null')),
                   workspace_event_value(after -> name)))
          INTO diff
          FROM unnest(ARRAY[{_VISIBLE_ARRAY}]) AS name
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
    """,
)

TRIGGERS = (
    """
    CREATE TRIGGER workspaces_count_version_on_insert BEFORE INSERT ON workspaces
    FOR EACH ROW EXECUTE FUNCTION workspaces_count_version()
    """,
    # The conditions are checked without entering plpgsql: stamping a row costs almost nothing.
    f"""
    CREATE TRIGGER workspaces_count_version_on_update BEFORE UPDATE ON workspaces FOR EACH ROW
    WHEN ({_VISIBLE_CHANGED} OR OLD.version IS DISTINCT FROM NEW.version
          OR OLD.created_at IS DISTINCT FROM NEW.created_at OR OLD.updated_at IS DISTINCT FROM NEW.updated_at)
    EXECUTE FUNCTION workspaces_count_version()
    """,
    """
    CREATE TRIGGER workspaces_tell_insert AFTER INSERT ON workspaces
    FOR EACH ROW EXECUTE FUNCTION workspaces_tell_change()
    """,
    """
    CREATE TRIGGER workspaces_tell_update AFTER UPDATE ON workspaces FOR EACH ROW
    WHEN (OLD.version IS DISTINCT FROM NEW.version) EXECUTE FUNCTION workspaces_tell_change()
    """,
)


def upgrade() -> None:
    for name, values in ENUMS.items():
        op.execute(f"CREATE TYPE {name} AS ENUM ({', '.join(repr(value) for value in values)})")
    for statement in (*TABLES, *INDEXES, *FUNCTIONS, *TRIGGERS):
        op.execute(statement)


def downgrade() -> None:
    for table in (
        "workspaces",
        "workspace_events",
        "sessions",
        "api_tokens",
        "users",
        "installation",
        "system_locks",
        "archive_orphans",
        "audit_log",
    ):
        op.execute(f"DROP TABLE {table}")
    op.execute("DROP FUNCTION workspaces_tell_change, workspaces_count_version, workspace_event_value")
    for name in ENUMS:
        op.execute(f"DROP TYPE {name}")
