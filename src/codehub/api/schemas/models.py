"""Models of request and response bodies, as shown in the OpenAPI document.

Request bodies are validated by these, and unknown fields are refused. Responses about workspaces are *not* built
through their model: ``rendering`` writes the JSON itself, several times faster, and a test checks it against the
model.
"""

from datetime import datetime
from typing import Any, Generic, Literal, TypeVar
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from codehub.api.schemas import examples
from codehub.api.schemas.fields import (
    GivenPassword,
    ImageRef,
    Name,
    NewPassword,
    Text,
    TtlSeconds,
    Username,
)
from codehub.domain.causes import CauseCode
from codehub.domain.errors import Reason
from codehub.domain.states import DesiredState, HealthStatus, ObservedStatus, Operation, Role
from codehub.domain.status import Status
from codehub.services.overview import OrphanReason

T = TypeVar("T")


class Body(BaseModel):
    """A request body."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Answer(BaseModel):
    model_config = ConfigDict(frozen=True)


class Page(Answer, Generic[T]):
    """A page of a list. Pass ``next_cursor`` as ``?cursor=``; null: the last page."""

    items: list[T]
    next_cursor: str | None = Field(examples=[None])


class FieldError(Answer):
    field: str
    message: str


class RunningWorkspace(Answer):
    id: UUID
    name: str
    status: Status


class Problem(Answer):
    """Problem details (RFC 9457): ``code`` for programs, ``detail`` for people."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    errors: list[FieldError] | None = Field(None, description="With 422: what is wrong with which field")
    used: int | None = Field(None, description="With a limit: places taken")
    allowed: int | None = Field(None, description="With a limit: places allowed")
    running: list[RunningWorkspace] | None = Field(
        None, description="With a limit: your workspaces that hold places"
    )


class ErrorInfo(Answer):
    reason: Reason
    message: str
    is_terminal: bool
    operation: Operation
    error_count: int
    context: dict[str, Any]
    occurred_at: datetime


class NextChange(Answer):
    """The next automatic change, unless the workspace is used before."""

    to: DesiredState
    at: datetime
    why: str


class Activity(Answer):
    """Connections and last use. Null: unknown at the moment."""

    connections: int | None
    last_seen_at: datetime | None
    kind: str | None = Field(description="http, websocket or start")
    next: NextChange | None


class Workspace(Answer):
    model_config = ConfigDict(json_schema_extra={"example": examples.WORKSPACE})

    id: UUID
    owner_id: UUID
    name: str
    description: str
    memo: str
    image_ref: str
    desired_state: DesiredState
    standby_ttl_seconds: int
    archive_ttl_seconds: int
    last_access_at: datetime
    awake_until: datetime | None
    active_until: datetime | None
    deleted_at: datetime | None
    observed_status: ObservedStatus
    health_status: HealthStatus
    observed_at: datetime | None
    operation: Operation
    op_id: UUID | None
    op_seq: int
    op_started_at: datetime | None
    op_acted_at: datetime | None
    archive_key: str | None
    error_count: int
    error_info: ErrorInfo | None
    last_retry_at: datetime | None
    previous_status: ObservedStatus | None
    version: int = Field(description="Grows with every change people can see")
    created_at: datetime
    updated_at: datetime
    status: Status = Field(description="Desired state, observation, health and operation in one word")
    holds_place: bool = Field(description="Whether it counts against the limits of running workspaces")
    progress: int | None = Field(ge=0, le=100, description="Percent of the running operation, if known")
    url: str = Field(description="URL that opens the workspace in a browser")
    activity: Activity


class NewWorkspace(Body):
    model_config = ConfigDict(json_schema_extra={"example": examples.NEW_WORKSPACE})

    name: Name
    image_ref: ImageRef | None = Field(None, description="One of GET /images; null: the default")
    description: Text = ""
    memo: Text = ""
    standby_ttl_seconds: TtlSeconds | None = Field(None, description="Idle time before sleep; 0: never")
    archive_ttl_seconds: TtlSeconds | None = Field(None, description="Sleep before archiving; 0: never")
    start: bool = Field(False, strict=True, description="Start it at once (desired state RUNNING)")


class WorkspaceChange(Body):
    """Only fields that are sent change."""

    model_config = ConfigDict(json_schema_extra={"example": {"name": "thesis", "standby_ttl_seconds": 900}})

    name: Name = Field(default="")
    description: Text = ""
    memo: Text = ""
    standby_ttl_seconds: TtlSeconds = 0
    archive_ttl_seconds: TtlSeconds = 0


class KeepAwake(Body):
    model_config = ConfigDict(json_schema_extra={"example": {"hours": 4}})

    hours: float = Field(ge=0, le=24, strict=True, allow_inf_nan=False, description="0: cancel")


class HistoryEntry(Answer):
    model_config = ConfigDict(json_schema_extra={"example": examples.HISTORY_ENTRY})

    seq: int
    version: int
    at: datetime
    changes: dict[str, tuple[Any, Any]] = Field(description="Column → [before, after]")
    actor: str | None
    cause: str | None = Field(description="English text, as recorded")
    cause_code: CauseCode | None = Field(description="Null: free text, for example an engine's own message")
    cause_params: dict[str, int] = Field(description="`seconds`, where the cause has a duration")


class ArchiveGeneration(Answer):
    model_config = ConfigDict(json_schema_extra={"example": examples.ARCHIVE})

    key: str
    bytes: int
    files: int
    created_at: datetime


class Image(Answer):
    name: str


class Images(Answer):
    """Images of the runtime. No items: any image is accepted."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"items": [{"name": "jupyterlab"}], "default": "jupyterlab"}}
    )

    items: list[Image]
    default: str | None


class Usage(Answer):
    used: int
    allowed: int


class Limits(Answer):
    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "user": {"used": 1, "allowed": 2},
                "global": {"used": 7, "allowed": 100},
                "attempts": 4,
            }
        }
    )

    user: Usage
    global_: Usage = Field(alias="global")
    attempts: int = Field(description="Attempts of an operation before a terminal error")


class Login(Body):
    model_config = ConfigDict(json_schema_extra={"example": {"username": "ann", "password": "correct horse"}})

    username: Username
    password: GivenPassword


class PasswordChange(Body):
    model_config = ConfigDict(
        json_schema_extra={"example": {"current": "correct horse", "new": "battery staple"}}
    )

    current: GivenPassword
    new: NewPassword


class User(Answer):
    model_config = ConfigDict(json_schema_extra={"example": examples.USER}, from_attributes=True)

    id: UUID
    username: str
    role: Role
    created_at: datetime
    disabled_at: datetime | None


class SessionInfo(Answer):
    user: User


class NewUser(Body):
    model_config = ConfigDict(
        json_schema_extra={"example": {"username": "ann", "password": "correct horse", "role": "user"}}
    )

    username: Username = Field(description="Letters, digits and . _ @ -, beginning with a letter or digit")
    password: NewPassword
    role: Role = Role.USER


class UserChange(Body):
    """Only fields that are sent change. A password or disabling ends all sessions."""

    model_config = ConfigDict(json_schema_extra={"example": {"disabled": True}})

    role: Role | None = None
    disabled: bool | None = Field(None, strict=True)
    password: NewPassword | None = None


class NewToken(Body):
    model_config = ConfigDict(json_schema_extra={"example": {"name": "laptop", "expires_in_days": 90}})

    name: Name
    expires_in_days: int | None = Field(None, ge=1, le=3650, strict=True, description="null: never")


class Token(Answer):
    model_config = ConfigDict(json_schema_extra={"example": examples.TOKEN}, from_attributes=True)

    id: UUID
    name: str
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None


class TokenShownOnce(Token):
    model_config = ConfigDict(
        json_schema_extra={"example": {**examples.TOKEN, "token": "chp_this-is-shown-once"}}
    )

    token: str


class Leader(Answer):
    name: str
    holder_id: str
    acquired_at: datetime
    epoch: int
    last_tick_at: datetime | None


class Overview(Answer):
    model_config = ConfigDict(json_schema_extra={"example": examples.OVERVIEW})

    counts: dict[str, int] = Field(description="Workspaces by status")
    leaders: list[Leader]
    archive_bytes: int | None = Field(description="null: the archive store did not answer in time")


class Orphan(Answer):
    model_config = ConfigDict(json_schema_extra={"example": examples.ORPHAN})

    kind: Literal["container", "volume", "archive"]
    name: str
    first_seen_at: datetime | None
    bytes: int | None
    why: OrphanReason


class AuditEntry(Answer):
    model_config = ConfigDict(json_schema_extra={"example": examples.AUDIT_ENTRY})

    seq: int
    at: datetime
    actor: str
    action: str
    subject: str | None
    detail: dict[str, Any]


class Health(Answer):
    status: Literal["ok"]


class RivalLeader(Answer):
    holder_id: str
    lock_name: str


class CoordinatorState(Answer):
    is_leader: bool
    holder_id: str | None = None
    acquired_at: datetime | None = None
    epoch: int | None = None
    last_tick_at: datetime | None = None
    last_error: str | None = None
    away: dict[str, Any] = Field({}, description="Engines that do not answer, as the leader sees them")
    rivals: list[RivalLeader] = Field(
        [],
        description="Other leaders of the same coordinator: replicas with another COORDINATOR_LOCK_ID",
    )


class CoordinatorReport(Answer):
    node_id: str
    uptime_seconds: float
    is_leader: bool
    coordinators: dict[str, CoordinatorState]
