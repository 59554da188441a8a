"""Table definitions. ``migrations/`` creates them; a test compares both.

``workspaces`` is shared by four components that never block each other, because each column has exactly one
writer: every column names it (``info["writer"]``, ADR 0001), and the query modules are divided the same way
(``intents``, ``observations``, ``claims``).
"""

from datetime import datetime
from enum import StrEnum
from typing import Any, TypeAlias
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Computed,
    DateTime,
    Enum,
    ForeignKey,
    Identity,
    Index,
    Integer,
    LargeBinary,
    Table,
    Text,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.types import TypeEngine
from sqlmodel import Field, SQLModel

from codehub.domain.port_shares import ShareLevel
from codehub.domain.states import DesiredState, HealthStatus, ObservedStatus, Operation, Role
from codehub.store.schema import derived

Json: TypeAlias = dict[str, object]
"""A JSON object."""


class Writer(StrEnum):
    """The component that alone may write a column of ``workspaces`` (ADR 0001)."""

    API = "api"
    OBSERVER = "observer"
    RECONCILER = "reconciler"
    DATABASE = "database"


def _enum(cls: type[StrEnum], name: str) -> Enum:
    return Enum(cls, name=name, values_callable=lambda members: [member.value for member in members])


desired_state_type = _enum(DesiredState, "desired_state")
observed_status_type = _enum(ObservedStatus, "observed_status")
health_status_type = _enum(HealthStatus, "health_status")
operation_type = _enum(Operation, "operation")
role_type = _enum(Role, "role")
share_level_type = _enum(ShareLevel, "share_level")
timestamptz = DateTime(timezone=True)
# JSON null and SQL NULL are different things; error_info and home_ctx are absent or an object.
jsonb = JSONB(none_as_null=True)


def _of(writer: Writer, type_: TypeEngine[Any], *args: Any, nullable: bool = False, **kwargs: Any) -> Any:
    """Define a field of ``workspaces`` together with its writer."""
    return Field(
        default=None, sa_column=Column(type_, *args, nullable=nullable, info={"writer": writer}, **kwargs)
    )


def _derived(type_: TypeEngine[Any], expression: str) -> Any:
    return _of(Writer.DATABASE, type_, Computed(expression, persisted=True), nullable=True)


def _plain(type_: TypeEngine[Any], *args: Any, nullable: bool = False, **kwargs: Any) -> Any:
    return Field(default=None, sa_column=Column(type_, *args, nullable=nullable, **kwargs))


class Workspace(SQLModel, table=True):
    """One workspace: desired state, observed status, operation in flight."""

    __tablename__ = "workspaces"

    id: UUID = _of(Writer.API, Uuid(), primary_key=True)
    owner_id: UUID = _of(Writer.API, Uuid(), ForeignKey("users.id"))
    name: str = _of(Writer.API, Text())
    description: str = _of(Writer.API, Text(), server_default="")
    memo: str = _of(Writer.API, Text(), server_default="")
    tags: list[str] = _of(Writer.API, ARRAY(Text()), server_default=text("'{}'"))
    pinned: bool = _of(Writer.API, Boolean(), server_default=text("false"))
    image_ref: str = _of(Writer.API, Text())
    desired_state: DesiredState = _of(Writer.API, desired_state_type, server_default="PENDING")
    standby_ttl_seconds: int = _of(Writer.API, Integer(), server_default="300")
    archive_ttl_seconds: int = _of(Writer.API, Integer(), server_default="86400")
    last_access_at: datetime = _of(Writer.API, timestamptz, server_default=text("clock_timestamp()"))
    awake_until: datetime | None = _of(Writer.API, timestamptz, nullable=True)
    active_until: datetime | None = _of(Writer.API, timestamptz, nullable=True)
    busy: Json | None = _of(Writer.API, jsonb, nullable=True)
    restore_from: Json | None = _of(Writer.API, jsonb, nullable=True)
    snapshot_as: Json | None = _of(Writer.API, jsonb, nullable=True)
    snapshots: list[Json] | None = _of(Writer.API, jsonb, nullable=True)
    copy_of: Json | None = _of(Writer.API, jsonb, nullable=True)
    queued_at: datetime | None = _of(Writer.API, timestamptz, nullable=True)
    deleted_at: datetime | None = _of(Writer.API, timestamptz, nullable=True)

    observed_status: ObservedStatus = _of(Writer.OBSERVER, observed_status_type, server_default="PENDING")
    health_status: HealthStatus = _of(Writer.OBSERVER, health_status_type, server_default="OK")
    observed_at: datetime | None = _of(Writer.OBSERVER, timestamptz, nullable=True)

    operation: Operation = _of(Writer.RECONCILER, operation_type, server_default="NONE")
    op_id: UUID | None = _of(Writer.RECONCILER, Uuid(), nullable=True)
    op_seq: int = _of(Writer.RECONCILER, BigInteger(), server_default="0")
    op_started_at: datetime | None = _of(Writer.RECONCILER, timestamptz, nullable=True)
    op_acted_at: datetime | None = _of(Writer.RECONCILER, timestamptz, nullable=True)
    archive_key: str | None = _of(Writer.RECONCILER, Text(), nullable=True)
    error_count: int = _of(Writer.RECONCILER, Integer(), server_default="0")
    error_info: Json | None = _of(Writer.RECONCILER, jsonb, nullable=True)
    last_retry_at: datetime | None = _of(Writer.RECONCILER, timestamptz, nullable=True)
    previous_status: ObservedStatus | None = _of(Writer.RECONCILER, observed_status_type, nullable=True)
    home_ctx: Json | None = _of(Writer.RECONCILER, jsonb, nullable=True)

    version: int = _of(Writer.DATABASE, BigInteger(), server_default="1")
    created_at: datetime = _of(Writer.DATABASE, timestamptz, server_default=text("clock_timestamp()"))
    updated_at: datetime = _of(Writer.DATABASE, timestamptz, server_default=text("clock_timestamp()"))
    due_lane: str | None = _derived(Text(), derived.DUE_LANE)
    due_since: datetime | None = _derived(timestamptz, derived.DUE_SINCE)
    archive_due_at: datetime | None = _derived(timestamptz, derived.ARCHIVE_DUE_AT)
    holds_place: bool = _derived(Boolean(), derived.HOLDS_PLACE)
    watched: bool = _derived(Boolean(), derived.WATCHED)
    status: str = _derived(Text(), derived.STATUS)

    __table_args__ = (
        # An operation in flight without its identity could neither be fenced nor timed out.
        CheckConstraint(
            "operation = 'NONE' OR (op_id IS NOT NULL AND op_started_at IS NOT NULL)",
            name="workspaces_operation_has_identity",
        ),
        CheckConstraint(
            "standby_ttl_seconds >= 0 AND archive_ttl_seconds >= 0", name="workspaces_ttl_not_negative"
        ),
        Index(
            "workspaces_live_name",
            "owner_id",
            "name",
            unique=True,
            postgresql_where=text("deleted_at IS NULL"),
        ),
        Index("workspaces_list", "id", postgresql_where=text("observed_status <> 'DELETED'")),
        Index(
            "workspaces_list_of_owner",
            "owner_id",
            "id",
            postgresql_where=text("observed_status <> 'DELETED'"),
        ),
        Index("workspaces_list_by_status", "status", "id"),
        Index("workspaces_copies", "id", postgresql_where=text("copy_of IS NOT NULL")),
        Index(
            "workspaces_due",
            "due_lane",
            "due_since",
            "id",
            postgresql_where=text("due_lane IS NOT NULL"),
        ),
        Index("workspaces_in_flight", "id", postgresql_where=text("operation <> 'NONE'")),
        Index("workspaces_watched", "id", postgresql_where=text("watched")),
        Index("workspaces_observed_at", "observed_at", postgresql_where=text("observed_status <> 'DELETED'")),
        Index("workspaces_holding_place", "owner_id", postgresql_where=text("holds_place")),
        Index("workspaces_queued", "queued_at", postgresql_where=text("queued_at IS NOT NULL")),
        Index(
            "workspaces_standby_candidates",
            "id",
            postgresql_where=text(
                "desired_state = 'RUNNING' AND observed_status = 'RUNNING' AND health_status = 'OK' "
                "AND operation = 'NONE' AND deleted_at IS NULL AND standby_ttl_seconds > 0"
            ),
        ),
        Index(
            "workspaces_archive_due",
            "archive_due_at",
            postgresql_where=text("archive_due_at IS NOT NULL"),
        ),
    )


class WorkspaceEvent(SQLModel, table=True):
    """The timeline of workspaces, appended by the trigger.

    An event outlives the workspace's row, hence no foreign key.
    """

    __tablename__ = "workspace_events"

    seq: int = _plain(BigInteger(), Identity(always=True), primary_key=True)
    workspace_id: UUID = _plain(Uuid())
    version: int = _plain(BigInteger())
    at: datetime = _plain(timestamptz, server_default=text("clock_timestamp()"))
    changes: Json = _plain(jsonb)
    actor: str | None = _plain(Text(), nullable=True)
    cause: str | None = _plain(Text(), nullable=True)

    __table_args__ = (Index("workspace_events_timeline", "workspace_id", "seq"),)


class Installation(SQLModel, table=True):
    """The installation, one row: id and secret of all replicas together.

    The id labels every container and volume; the secret signs messages that replicas exchange through a
    browser.
    """

    __tablename__ = "installation"

    singleton: bool = _plain(Boolean(), primary_key=True, server_default=text("true"))
    id: UUID = _plain(Uuid())
    secret: bytes = _plain(LargeBinary())
    created_at: datetime = _plain(timestamptz, server_default=text("clock_timestamp()"))

    __table_args__ = (CheckConstraint("singleton", name="installation_is_one_row"),)


class User(SQLModel, table=True):
    """An account of a person."""

    __tablename__ = "users"

    id: UUID = _plain(Uuid(), primary_key=True)
    username: str = _plain(Text())
    password_hash: str = _plain(Text())
    role: Role = _plain(role_type, server_default="user")
    created_at: datetime = _plain(timestamptz, server_default=text("clock_timestamp()"))
    disabled_at: datetime | None = _plain(timestamptz, nullable=True)

    # Case-insensitive: people take "Ann" and "ann" for the same user.
    __table_args__ = (Index("users_username", text("lower(username)"), unique=True),)


class SignInSession(SQLModel, table=True):
    """A signed-in browser.

    Only the hash of its cookie is stored; ending a session deletes the row.
    """

    __tablename__ = "sessions"

    id: UUID = _plain(Uuid(), primary_key=True)
    user_id: UUID = _plain(Uuid(), ForeignKey("users.id", ondelete="CASCADE"))
    secret_hash: str = _plain(Text(), unique=True)
    created_at: datetime = _plain(timestamptz, server_default=text("clock_timestamp()"))
    last_seen_at: datetime = _plain(timestamptz, server_default=text("clock_timestamp()"))
    idle_expires_at: datetime = _plain(timestamptz)
    expires_at: datetime = _plain(timestamptz)

    __table_args__ = (
        Index("sessions_of_user", "user_id"),
        Index("sessions_idle_expires_at", "idle_expires_at"),
    )


class ApiToken(SQLModel, table=True):
    """An API token for programs. Shown once; only its hash is stored."""

    __tablename__ = "api_tokens"

    id: UUID = _plain(Uuid(), primary_key=True)
    user_id: UUID = _plain(Uuid(), ForeignKey("users.id", ondelete="CASCADE"))
    name: str = _plain(Text())
    secret_hash: str = _plain(Text(), unique=True)
    created_at: datetime = _plain(timestamptz, server_default=text("clock_timestamp()"))
    expires_at: datetime | None = _plain(timestamptz, nullable=True)
    last_used_at: datetime | None = _plain(timestamptz, nullable=True)
    revoked_at: datetime | None = _plain(timestamptz, nullable=True)

    __table_args__ = (Index("api_tokens_of_user", "user_id", "id"),)


class SshKey(SQLModel, table=True):
    """A public key by which a person signs in to the SSH gateway. Of one person only."""

    __tablename__ = "ssh_keys"

    id: UUID = _plain(Uuid(), primary_key=True)
    user_id: UUID = _plain(Uuid(), ForeignKey("users.id", ondelete="CASCADE"))
    name: str = _plain(Text())
    public_key: str = _plain(Text())
    fingerprint: str = _plain(Text(), unique=True)
    added_at: datetime = _plain(timestamptz, server_default=text("clock_timestamp()"))
    last_used_at: datetime | None = _plain(timestamptz, nullable=True)

    __table_args__ = (Index("ssh_keys_of_user", "user_id", "id"),)


class PortShare(SQLModel, table=True):
    """Label and share of one port of a workspace. Written by ``services/port_shares`` alone."""

    __tablename__ = "port_shares"

    workspace_id: UUID = _plain(Uuid(), ForeignKey("workspaces.id", ondelete="CASCADE"), primary_key=True)
    port: int = _plain(Integer(), primary_key=True, autoincrement=False)
    label: str = _plain(Text(), server_default=text("''"))
    level: ShareLevel = _plain(share_level_type, server_default="private")
    expires_at: datetime | None = _plain(timestamptz, nullable=True)
    link_id: UUID | None = _plain(Uuid(), nullable=True)
    updated_at: datetime = _plain(timestamptz, server_default=text("clock_timestamp()"))

    __table_args__ = (
        CheckConstraint("port BETWEEN 1 AND 65535", name="port_shares_port"),
        CheckConstraint(
            "(level = 'public') = (link_id IS NOT NULL) AND (link_id IS NULL OR expires_at IS NOT NULL)",
            name="port_shares_link",
        ),
    )


class SystemLock(SQLModel, table=True):
    """The leader of each coordinator, and ``epoch``, which fences its writes.

    ``last_tick_at``: when the leader last finished a whole tick. The Reconciler reads the Observer's: nothing
    is claimed or timed out on stale observations. ``detail``: what only the leader knows and every replica
    shows, such as an engine that is away.
    """

    __tablename__ = "system_locks"

    lock_name: str = _plain(Text(), primary_key=True)
    holder_id: str = _plain(Text())
    acquired_at: datetime = _plain(timestamptz, server_default=text("clock_timestamp()"))
    epoch: int = _plain(BigInteger())
    last_tick_at: datetime | None = _plain(timestamptz, nullable=True)
    detail: Json = _plain(jsonb, server_default=text("'{}'::jsonb"))


class ArchiveOrphan(SQLModel, table=True):
    """An archive that no workspace protects, and since when the GC knows.

    Losing a row only delays a deletion.
    """

    __tablename__ = "archive_orphans"

    path: str = _plain(Text(), primary_key=True)
    first_seen_at: datetime = _plain(timestamptz, server_default=text("clock_timestamp()"))


class AuditEntry(SQLModel, table=True):
    """Who did what.

    Written in the acting transaction: neither exists without the other.
    """

    __tablename__ = "audit_log"

    seq: int = _plain(BigInteger(), Identity(always=True), primary_key=True)
    at: datetime = _plain(timestamptz, server_default=text("clock_timestamp()"))
    actor: str = _plain(Text())
    action: str = _plain(Text())
    subject: str | None = _plain(Text(), nullable=True)
    detail: Json = _plain(jsonb, server_default=text("'{}'::jsonb"))


def _table(name: str) -> Table:
    return SQLModel.metadata.tables[name]


# What is written to. Reads select the classes, their columns or records of these (ADR 0033).
workspaces = _table("workspaces")
workspace_events = _table("workspace_events")
installation = _table("installation")
users = _table("users")
sessions = _table("sessions")
api_tokens = _table("api_tokens")
ssh_keys = _table("ssh_keys")
port_shares = _table("port_shares")
system_locks = _table("system_locks")
archive_orphans = _table("archive_orphans")
audit_log = _table("audit_log")
metadata = SQLModel.metadata

# Constants, not parameters: a prepared statement uses a partial index only if it can prove the index's condition,
# which it cannot from a parameter.
NOT_GONE = text("workspaces.observed_status <> 'DELETED'")
IN_FLIGHT = text("workspaces.operation <> 'NONE'")
STANDBY_CANDIDATE = text(
    "workspaces.desired_state = 'RUNNING' AND workspaces.observed_status = 'RUNNING' "
    "AND workspaces.health_status = 'OK' AND workspaces.operation = 'NONE' "
    "AND workspaces.deleted_at IS NULL AND workspaces.standby_ttl_seconds > 0"
)
