"""Let ``due_lane`` also select complete homes without a mark, to be marked.

The column is dropped and added: PostgreSQL before 17 cannot change the expression of a generated column. That
rewrites the table, once, under a lock; some seconds for 100 000 workspaces.
"""

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

TRUSTED = "(archive_key IS NULL OR (home_ctx ->> 'restore_marker') IS NOT DISTINCT FROM archive_key)"
MARKED = "coalesce((home_ctx ->> 'volume') = 'true', false)"

LANE = """
    CASE
      WHEN operation <> 'NONE' THEN NULL
      WHEN deleted_at IS NOT NULL THEN CASE WHEN observed_status <> 'DELETED' THEN 'control' END
      WHEN health_status = 'ERROR' OR coalesce((error_info ->> 'is_terminal') = 'true', false) THEN NULL
      WHEN observed_status = 'PENDING' THEN CASE
        WHEN {marked} THEN 'control'
        WHEN desired_state = 'PENDING' THEN NULL
        WHEN archive_key IS NULL THEN 'control'
        ELSE 'storage' END
      WHEN observed_status = 'STANDBY' THEN CASE
        WHEN NOT {trusted} THEN 'storage'
        WHEN {asleep_and_due} THEN 'control'
        WHEN desired_state = 'PENDING' THEN 'storage' END
      WHEN observed_status = 'RUNNING' AND ({awake_and_due}) THEN 'control'
    END
"""
BEFORE = LANE.format(
    trusted=TRUSTED,
    marked=MARKED,
    asleep_and_due="desired_state = 'RUNNING'",
    awake_and_due="desired_state <> 'RUNNING'",
)
AFTER = LANE.format(
    trusted=TRUSTED,
    marked=MARKED,
    asleep_and_due=f"NOT {MARKED} OR desired_state = 'RUNNING'",
    awake_and_due=f"desired_state <> 'RUNNING' OR {TRUSTED} AND NOT {MARKED}",
)


def upgrade() -> None:
    _make_anew(AFTER)


def downgrade() -> None:
    _make_anew(BEFORE)


def _make_anew(lane: str) -> None:
    op.execute("ALTER TABLE workspaces DROP COLUMN due_lane")  # drops its index too
    op.execute(f"ALTER TABLE workspaces ADD COLUMN due_lane TEXT GENERATED ALWAYS AS ({lane}) STORED")
    op.execute(
        "CREATE INDEX workspaces_due ON workspaces (due_lane, due_since, id) WHERE due_lane IS NOT NULL"
    )
