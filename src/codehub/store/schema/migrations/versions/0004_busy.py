"""Add ``busy``: what a workspace does by itself, and until when that counts as use.

Nullable and without a default, so nothing is rewritten. People are told of it with the activity; it is none of the
columns that count a version.
"""

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("ALTER TABLE workspaces ADD COLUMN busy JSONB")


def downgrade() -> None:
    op.execute("ALTER TABLE workspaces DROP COLUMN busy")
