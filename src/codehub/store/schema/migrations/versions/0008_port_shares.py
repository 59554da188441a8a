"""Add ``port_shares``: a label and a share level for ports of workspaces.

A public share always has a link and always ends.
"""

from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("CREATE TYPE share_level AS ENUM ('private', 'signed_in', 'public')")
    op.execute(
        """
        CREATE TABLE port_shares (
            workspace_id UUID NOT NULL,
            port INTEGER NOT NULL,
            label TEXT DEFAULT '' NOT NULL,
            level share_level DEFAULT 'private' NOT NULL,
            expires_at timestamptz,
            link_id UUID,
            updated_at timestamptz DEFAULT clock_timestamp() NOT NULL,
            PRIMARY KEY (workspace_id, port),
            FOREIGN KEY(workspace_id) REFERENCES workspaces (id) ON DELETE CASCADE,
            CONSTRAINT port_shares_port CHECK (port BETWEEN 1 AND 65535),
            CONSTRAINT port_shares_link CHECK
                ((level = 'public') = (link_id IS NOT NULL) AND (link_id IS NULL OR expires_at IS NOT NULL))
        )
        """
    )


def downgrade() -> None:
    op.execute("DROP TABLE port_shares")
    op.execute("DROP TYPE share_level")
