"""Render workspaces as JSON, by the schema that the OpenAPI document shows.

Values come from our own rows with the types of the schema, so nothing is validated again: pydantic writes a whole
page in one call. Answers, lists and event streams all render here.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import TypeAlias
from urllib.parse import urlsplit
from uuid import UUID

from pydantic import TypeAdapter

from codehub.api.progress_cache import NOTHING_KNOWN, KnownProgress, ProgressCache
from codehub.api.queue_places import Places
from codehub.api.schemas.activity import Activity, Awake, NextChange, Work
from codehub.api.schemas.base import Page
from codehub.api.schemas.workspaces import ErrorInfo, NamedSnapshot, ReturnTarget, Workspace
from codehub.domain import ttl
from codehub.domain.limits import holds_place
from codehub.domain.states import Operation
from codehub.domain.status import Status
from codehub.store.workspaces.records import WorkspaceRecord

Activities: TypeAlias = Mapping[UUID, ttl.Activity] | None
"""None: Redis is away, and nobody can tell who is connected."""

_UNUSED = ttl.Activity()
_Page = Page[Workspace]
_WORKSPACE_JSON = TypeAdapter(Workspace)
_PAGE_JSON = TypeAdapter(_Page)
_ACTIVITY_JSON = TypeAdapter(Activity)


class WorkspaceRenderer:
    def __init__(
        self,
        *,
        base_url: str,
        base_domain: str | None,
        progress: ProgressCache,
        use_policy: ttl.UsePolicy,
        ties_home_to_node: Callable[[str], bool],
    ) -> None:
        self._progress = progress
        self._use_policy = use_policy
        self._ties_home_to_node = ties_home_to_node
        self._url = url_pattern(base_url, base_domain)

    def one(self, record: WorkspaceRecord, activities: Activities, places: Places) -> bytes:
        return _WORKSPACE_JSON.dump_json(self._workspace(record, activities, places, now=datetime.now(UTC)))

    def page(
        self,
        records: Iterable[WorkspaceRecord],
        activities: Activities,
        places: Places,
        *,
        next_cursor: str | None,
    ) -> bytes:
        now = datetime.now(UTC)
        items = [self._workspace(record, activities, places, now=now) for record in records]
        # Pays for: "list of 50 by API", one connection. One call for the page, no model for each workspace.
        return _PAGE_JSON.dump_json(_Page.model_construct(items=items, next_cursor=next_cursor))

    def activity(self, record: WorkspaceRecord, activities: Activities, places: Places) -> bytes:
        """The part of ``one`` that changes without a new version, by itself."""
        activity = _ACTIVITY_JSON.dump_json(self._activity(record, activities, places, now=datetime.now(UTC)))
        return b'{"id":"%b","activity":%b}' % (str(record.view.id).encode(), activity)

    def _workspace(
        self, record: WorkspaceRecord, activities: Activities, places: Places, *, now: datetime
    ) -> Workspace:
        view, progress = record.view, self._progress_of(record)
        return {
            "id": view.id,
            "owner_id": view.owner_id,
            "name": record.name,
            "description": record.description,
            "memo": record.memo,
            "tags": record.tags,
            "pinned": record.pinned,
            "image_ref": view.image_ref,
            "desired_state": view.desired_state,
            "standby_ttl_seconds": view.standby_ttl_seconds,
            "archive_ttl_seconds": view.archive_ttl_seconds,
            "last_access_at": view.last_access_at,
            "awake_until": view.awake_until,
            "active_until": view.active_until,
            "queued_at": view.queued_at if view.is_queued else None,
            "deleted_at": view.deleted_at,
            "observed_status": view.observed_status,
            "health_status": view.health_status,
            "observed_at": view.observed_at,
            "operation": view.operation,
            "op_id": view.op_id,
            "op_seq": view.op_seq,
            "op_started_at": view.op_started_at,
            "op_acted_at": view.op_acted_at,
            "archive_key": view.archive_key,
            "archived_at": view.archived_at,
            "node_local_home": self._ties_home_to_node(view.image_ref),
            "restore_from": _return_target(record),
            "snapshot_as": _wanted_snapshot(record),
            "copy_of": _source_id(record),
            "return_given_up": view.home.return_given_up,
            "error_count": view.error_count,
            "error_info": _error_info(record),
            "last_retry_at": view.last_retry_at,
            "previous_status": view.previous_status,
            "version": view.version,
            "created_at": record.created_at,
            "updated_at": record.updated_at,
            "status": Status(record.status),
            "holds_place": holds_place(view),
            "progress": progress.percent,
            "waiting_for": progress.waiting_for,
            "url": self._url.format(id=view.id),
            "activity": self._activity(record, activities, places, now=now),
        }

    def _progress_of(self, record: WorkspaceRecord) -> KnownProgress:
        view = record.view
        in_flight = view.operation is not Operation.NONE
        return self._progress.known(view.id, view.operation) if in_flight else NOTHING_KNOWN

    def _activity(
        self, record: WorkspaceRecord, activities: Activities, places: Places, *, now: datetime
    ) -> Activity:
        """A workspace Redis has never heard of was simply not used."""
        view, policy = record.view, self._use_policy
        known = activities.get(view.id, _UNUSED) if activities is not None else None
        following = ttl.next_change(view, activity=known, now=now, policy=policy)
        awake = ttl.why_awake(view, activity=known, now=now, policy=policy)
        shown = known or _UNUSED
        following_change: NextChange | None = None
        if following is not None:
            following_change = {"to": following.to, "at": following.at, "why": following.why}
        return {
            "connections": shown.connections if known is not None else None,
            "last_seen_at": shown.last_seen_at,
            "kind": shown.kind,
            "awake": _awake(awake) if awake is not None else None,
            "next": following_change,
            "queue": places.get(view.id) if view.is_queued else None,
        }


def _awake(awake: ttl.Awake) -> Awake:
    work: Work | None = None
    if awake.busy is not None and awake.until is not None:
        work = {"what": awake.busy.what, "name": awake.busy.name, "until": awake.until}
    return {"because": awake.because, "since": awake.since, "work": work}


def _return_target(record: WorkspaceRecord) -> ReturnTarget | None:
    chosen = record.view.restore_from
    if chosen is None or record.view.deleted_at is not None:
        return None
    return {"archive_key": chosen.archive_key, "created_at": chosen.created_at}


def _wanted_snapshot(record: WorkspaceRecord) -> NamedSnapshot | None:
    wanted = record.view.snapshot_as
    if wanted is None or record.view.deleted_at is not None:
        return None
    return {"id": wanted.id, "name": wanted.name}


def _source_id(record: WorkspaceRecord) -> UUID | None:
    return record.view.copy_of.workspace_id if record.view.copy_of is not None else None


def _error_info(record: WorkspaceRecord) -> ErrorInfo | None:
    error = record.view.error_info
    if error is None:
        return None
    return {
        "reason": error.reason,
        "message": error.message,
        "is_terminal": error.is_terminal,
        "operation": error.operation,
        "error_count": error.error_count,
        "context": dict(error.context),
        "occurred_at": error.occurred_at,
    }


def url_pattern(base_url: str, base_domain: str | None) -> str:
    """Where workspaces are reached, with ``{id}`` in it."""
    if base_domain is None:
        return base_url.rstrip("/") + "/w/{id}/"
    base = urlsplit(base_url)
    port = f":{base.port}" if base.port and ":" not in base_domain else ""
    return f"{base.scheme}://{{id}}.{base_domain}{port}/"
