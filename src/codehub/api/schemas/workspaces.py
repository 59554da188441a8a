"""Bodies of ``/workspaces``.

Workspaces are typed dictionaries, because lists and event streams hold many of them: a dictionary costs nothing to
make, and pydantic writes it as fast as a model.
"""

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from pydantic import ConfigDict, Field, with_config
from typing_extensions import TypedDict

from codehub.api.schemas import examples
from codehub.api.schemas.activity import Activity
from codehub.api.schemas.base import RequestBody
from codehub.api.schemas.fields import ImageRef, Name, Tags, Text, TtlSeconds
from codehub.domain.errors import Reason
from codehub.domain.states import DesiredState, HealthStatus, ObservedStatus, Operation
from codehub.domain.status import Status


class ErrorInfo(TypedDict):
    reason: Reason
    message: str
    is_terminal: bool
    operation: Operation
    error_count: int
    context: dict[str, Any]
    occurred_at: datetime


class ReturnTarget(TypedDict):
    archive_key: str
    created_at: datetime


class NamedSnapshot(TypedDict):
    id: UUID
    name: str


@with_config(ConfigDict(json_schema_extra={"example": examples.WORKSPACE}))
class Workspace(TypedDict):
    id: UUID
    owner_id: UUID
    name: str
    description: str
    memo: str
    tags: Annotated[list[str], Field(description="The owner's own words to find and group it by")]
    pinned: Annotated[bool, Field(description="First in its owner's list")]
    image_ref: str
    desired_state: DesiredState
    standby_ttl_seconds: int
    archive_ttl_seconds: int
    last_access_at: datetime
    awake_until: datetime | None
    active_until: datetime | None
    queued_at: Annotated[
        datetime | None,
        Field(
            description="Since when it waits for a running place (`activity.queue` tells where); null: it does not"
        ),
    ]
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
    archived_at: Annotated[
        datetime | None,
        Field(
            description="When that archive was committed; null: there is none, or an older release made it"
        ),
    ]
    node_local_home: Annotated[
        bool,
        Field(
            description="Its home is on one node of the cluster: if that node is lost, so is what was written since "
            "`archived_at`"
        ),
    ]
    restore_from: Annotated[
        ReturnTarget | None,
        Field(description="The earlier archive it is to return to, once its present home is archived"),
    ]
    snapshot_as: Annotated[
        NamedSnapshot | None, Field(description="The snapshot that is wanted and not made yet")
    ]
    copy_of: Annotated[
        UUID | None, Field(description="The workspace whose archive it began with; null: it is no copy")
    ]
    return_given_up: Annotated[
        str | None,
        Field(
            description="Why the last return to an earlier archive was given up; null once the home is archived again"
        ),
    ]
    error_count: int
    error_info: ErrorInfo | None
    last_retry_at: datetime | None
    previous_status: ObservedStatus | None
    version: Annotated[int, Field(description="Grows with every change people can see")]
    created_at: datetime
    updated_at: datetime
    status: Annotated[
        Status, Field(description="Desired state, observation, health and operation in one word")
    ]
    holds_place: Annotated[
        bool, Field(description="Whether it counts against the limits of running workspaces")
    ]
    progress: Annotated[
        int | None, Field(ge=0, le=100, description="Percent of the running operation, if known")
    ]
    waiting_for: Annotated[
        str | None,
        Field(
            description="Why no node of the cluster takes it yet, in the scheduler's words; null: it does not wait"
        ),
    ]
    url: Annotated[str, Field(description="URL that opens the workspace in a browser")]
    activity: Activity


class NewWorkspace(RequestBody):
    model_config = ConfigDict(json_schema_extra={"example": examples.NEW_WORKSPACE})

    name: Name
    image_ref: ImageRef | None = Field(None, description="One of GET /images; null: the default")
    description: Text = ""
    memo: Text = ""
    tags: Tags = Field(default=[], description="Up to 8 words of up to 32 characters")
    standby_ttl_seconds: TtlSeconds | None = Field(None, description="Idle time before sleep; 0: never")
    archive_ttl_seconds: TtlSeconds | None = Field(None, description="Sleep before archiving; 0: never")
    start: bool = Field(False, strict=True, description="Start it at once (desired state RUNNING)")
    queue: bool = Field(
        False,
        strict=True,
        description="With `start`, at a limit: create it all the same, and wait for a place",
    )


class StartWorkspace(RequestBody):
    model_config = ConfigDict(json_schema_extra={"example": {"queue": True}})

    queue: bool = Field(False, strict=True, description="At a limit: wait for a running place")
    instead_of: UUID | None = Field(
        None, description="A running workspace of the same owner, to be stopped in the same transaction"
    )


class WorkspaceChange(RequestBody):
    """Only fields that are sent change."""

    model_config = ConfigDict(json_schema_extra={"example": {"name": "thesis", "standby_ttl_seconds": 900}})

    name: Name = Field(default="")
    description: Text = ""
    memo: Text = ""
    tags: Tags = Field(default=[], description="All of its tags")
    pinned: bool = Field(default=False, strict=True, description="First in the list")
    standby_ttl_seconds: TtlSeconds = 0
    archive_ttl_seconds: TtlSeconds = 0


class ReturnToArchive(RequestBody):
    model_config = ConfigDict(json_schema_extra={"example": {"archive_key": examples.ARCHIVE["key"]}})

    archive_key: str = Field(
        max_length=1024, description="The archive to go on from: the workspace's `archive_key`"
    )


class KeepAwake(RequestBody):
    model_config = ConfigDict(json_schema_extra={"example": {"hours": 4}})

    hours: float = Field(ge=0, le=24, strict=True, allow_inf_nan=False, description="0: cancel")
