"""Change ``holds_place``: in terminal error and not running, it holds no place.

The column is dropped and added: PostgreSQL before 17 cannot change the expression of a generated column. That
rewrites the table, once, under a lock; some seconds for 100 000 workspaces.
"""

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

TERMINAL = "coalesce((error_info ->> 'is_terminal') = 'true', false)"
PLACE = """
    (desired_state = 'RUNNING' AND deleted_at IS NULL{unless_broken})
    OR (observed_status = 'RUNNING' AND CASE
      WHEN operation = 'NONE' THEN deleted_at IS NULL AND (health_status = 'ERROR' OR {terminal})
      ELSE operation NOT IN ('STOPPING', 'DELETING') END)
"""
BEFORE = PLACE.format(unless_broken="", terminal=TERMINAL)
AFTER = PLACE.format(
    unless_broken=f" AND NOT ({TERMINAL} AND operation = 'NONE' AND observed_status <> 'RUNNING')",
    terminal=TERMINAL,
)


def upgrade() -> None:
    _make_anew(AFTER)


def downgrade() -> None:
    _make_anew(BEFORE)


def _make_anew(place: str) -> None:
    op.execute("ALTER TABLE workspaces DROP COLUMN holds_place")  # drops its index too
    op.execute(f"ALTER TABLE workspaces ADD COLUMN holds_place BOOLEAN GENERATED ALWAYS AS ({place}) STORED")
    op.execute("CREATE INDEX workspaces_holding_place ON workspaces (owner_id) WHERE holds_place")
