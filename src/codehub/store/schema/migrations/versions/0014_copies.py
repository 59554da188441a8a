"""Add ``copy_of``: the archive of another workspace that a copy begins with.

Written when the copy is created and never changed. The index is for the archive GC, which asks what copies need.
"""

from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("ALTER TABLE workspaces ADD COLUMN copy_of JSONB")
    op.execute("CREATE INDEX workspaces_copies ON workspaces (id) WHERE copy_of IS NOT NULL")


def downgrade() -> None:
    """Copies without an archive of their own cannot be restored by the older release: it refuses other folders."""
    op.execute("ALTER TABLE workspaces DROP COLUMN copy_of")
