"""Types of the API's answers: the fields that commands read.

Answers stay dictionaries: ``--json`` prints them whole, including fields that a newer server adds.
"""

from typing import Any, Literal, NotRequired, TypedDict


class User(TypedDict):
    id: str
    username: str
    role: Literal["admin", "user"]


class Token(TypedDict):
    id: str
    name: str
    token: str
    expires_at: str | None


class SshKey(TypedDict):
    id: str
    name: str
    public_key: str
    fingerprint: str
    added_at: str
    last_used_at: str | None


class SshGateway(TypedDict):
    host: str
    port: int
    host_key: str
    fingerprint: str


class ErrorInfo(TypedDict):
    reason: str
    message: str
    is_terminal: bool
    operation: str
    error_count: int
    context: dict[str, Any]
    occurred_at: str


class NextChange(TypedDict):
    to: str
    at: str
    why: str


class Work(TypedDict):
    what: str
    name: str
    until: str


class Awake(TypedDict):
    because: str
    since: str | None
    work: NotRequired[Work | None]  # not told by servers of earlier versions


class QueuePlace(TypedDict):
    place: int
    limit: str
    since: str
    estimated_seconds: int | None


class Activity(TypedDict):
    connections: int | None
    last_seen_at: str | None
    kind: str | None
    awake: Awake | None
    next: NextChange | None
    queue: NotRequired[QueuePlace | None]  # not told by servers of earlier versions


class ReturnTarget(TypedDict):
    archive_key: str
    created_at: str


class Workspace(TypedDict):
    id: str
    owner_id: str
    name: str
    tags: NotRequired[list[str]]  # not told by servers of earlier versions, as `pinned`
    pinned: NotRequired[bool]
    image_ref: str
    desired_state: str
    standby_ttl_seconds: int
    archive_ttl_seconds: int
    last_access_at: str
    awake_until: str | None
    queued_at: NotRequired[str | None]
    deleted_at: str | None
    observed_status: str
    observed_at: str | None
    health_status: str
    operation: str
    op_started_at: str | None
    archive_key: str | None
    restore_from: ReturnTarget | None
    snapshot_as: NotRequired["NamedSnapshot | None"]  # not told by servers of earlier versions
    copy_of: NotRequired[str | None]
    archived_at: NotRequired[str | None]  # not told by servers of earlier versions
    node_local_home: NotRequired[bool]
    error_count: int
    error_info: ErrorInfo | None
    version: int
    created_at: str
    status: str
    progress: int | None
    waiting_for: NotRequired[str | None]  # not told by servers of earlier versions
    url: str
    activity: Activity


class HistoryEntry(TypedDict):
    seq: int
    version: int
    at: str
    changes: dict[str, list[Any]]
    actor: str | None
    cause: str | None
    cause_code: NotRequired[str | None]  # not told by servers of earlier versions
    cause_params: NotRequired[dict[str, int]]


class NamedSnapshot(TypedDict):
    id: str
    name: str


class ArchiveGeneration(TypedDict):
    key: str
    bytes: int
    files: int
    sha256: str
    created_at: str
    # Not told by servers of earlier versions.
    current: NotRequired[bool]
    chosen: NotRequired[bool]
    damaged: NotRequired[bool]
    expiring: NotRequired[bool]
    snapshot: NotRequired[NamedSnapshot | None]


def files_of(archive_key: str) -> str:
    """The address of the files in an archive, below the API's."""
    workspace_id, op_id, attempt, _ = archive_key.split("/")
    return f"/workspaces/{workspace_id}/archives/{op_id}/{attempt}/files"


class FileEntry(TypedDict):
    name: str
    type: str
    size: int
    mode: str
    modified_at: str
    target: str | None


class Coordinator(TypedDict):
    is_leader: bool
    holder_id: str | None
    acquired_at: str | None
    epoch: int | None
    last_tick_at: str | None
    last_error: str | None
    away: dict[str, Any]
    rivals: list[dict[str, str]]


class CoordinatorReport(TypedDict):
    node_id: str
    coordinators: dict[str, Coordinator]


class Leader(TypedDict):
    name: str
    holder_id: str
    acquired_at: str
    epoch: int
    last_tick_at: str | None


class Overview(TypedDict):
    counts: dict[str, int]
    leaders: list[Leader]
    archive_bytes: int | None


class Savings(TypedDict):
    hours_saved: float
    gb_not_on_disk: NotRequired[float]  # not told by servers of earlier versions
    money: float | None
    currency: str | None


class Orphan(TypedDict):
    kind: str
    name: str
    first_seen_at: str | None
    bytes: int | None
    why: str


class Finding(TypedDict):
    kind: str
    subject: str
    workspace_id: str | None
    name: str | None
    owner: str | None
    since: str | None
    bytes: int | None
    message: str | None
    operation: str | None
    repairs: list[str]


class Port(TypedDict):
    port: int
    addresses: list[str]
    process: str | None
    is_ide: bool
    url: str


class Process(TypedDict):
    id: str
    command: str
    pid: int
    started_at: str
    ended_at: str | None
    exit_code: int | None
    timed_out: bool
    output_bytes: int
    lost_bytes: int


class Ports(TypedDict):
    ports: list[Port]
    truncated: bool
    home: str | None


class Share(TypedDict):
    port: int
    label: str
    level: str
    level_now: str
    expires_at: str | None
    url: str
    link: str | None


class Shares(TypedDict):
    shares: list[Share]
