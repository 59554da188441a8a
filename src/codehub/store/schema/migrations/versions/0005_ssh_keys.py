"""Add ``ssh_keys``: public keys by which people sign in to the SSH gateway.

A key belongs to one person: its fingerprint is unique. A removed key has no row.
"""

from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute(
        """
        CREATE TABLE ssh_keys (
            id UUID NOT NULL,
            user_id UUID NOT NULL,
            name TEXT NOT NULL,
            public_key TEXT NOT NULL,
            fingerprint TEXT NOT NULL,
            added_at timestamptz DEFAULT clock_timestamp() NOT NULL,
            last_used_at timestamptz,
            PRIMARY KEY (id),
            FOREIGN KEY(user_id) REFERENCES users (id) ON DELETE CASCADE,
            UNIQUE (fingerprint)
        )
        """
    )
    op.execute("CREATE INDEX ssh_keys_of_user ON ssh_keys (user_id, id)")


def downgrade() -> None:
    op.execute("DROP TABLE ssh_keys")
