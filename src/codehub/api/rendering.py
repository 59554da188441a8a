"""A workspace as JSON, written straight from its record.

The hottest answers of the API are one workspace and a page of fifty, and each event stream carries whole
workspaces too. Building and validating a model for each would cost several times what the database does.
``tests`` hold this to ``schemas.Workspace``.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from codehub.api.live.progress import ProgressCache
from codehub.domain.limits import holds_place
from codehub.domain.states import Operation
from codehub.domain.ttl import Activity, Transition, next_transition
from codehub.kit.cache import TtlCache
from codehub.store.workspaces.records import WorkspaceRecord

MAX_CACHED = 4096

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str).encode


class WorkspaceRenderer:
    def __init__(self, *, base_url: str, base_domain: str | None, progress: ProgressCache) -> None:
        self._progress = progress
        self._url = _url_pattern(base_url, base_domain)
        self._rendered: TtlCache[UUID, tuple[WorkspaceRecord, str]] = TtlCache(size=MAX_CACHED)

    def render(self, record: WorkspaceRecord, activity: Activity | None, *, now: datetime) -> str:
        """The whole JSON object. ``activity`` None: nobody can tell."""
        view = record.view
        percent = None
        if view.operation is not Operation.NONE:
            percent = self._progress.percent(view.id, view.operation)
        following = next_transition(view, activity=activity, now=now)
        if percent is None and following is None and activity is _UNUSED:
            return self._columns(record) + _NOTHING_GOING_ON
        return self._columns(record) + _tail(percent, activity, following)

    def page(
        self,
        records: "list[WorkspaceRecord]",
        activities: Mapping[UUID, Activity] | None,
        *,
        next_cursor: str | None,
    ) -> str:
        now = datetime.now(UTC)
        items = ",".join(self.render(record, _of(activities, record.view.id), now=now) for record in records)
        return f'{{"items":[{items}],"next_cursor":{_encode(next_cursor)}}}'

    def one(self, record: WorkspaceRecord, activities: Mapping[UUID, Activity] | None) -> str:
        return self.render(record, _of(activities, record.view.id), now=datetime.now(UTC))

    def activity(self, record: WorkspaceRecord, activities: Mapping[UUID, Activity] | None) -> str:
        """The part of ``one`` that changes without a new version, by itself."""
        activity = _of(activities, record.view.id)
        following = next_transition(record.view, activity=activity, now=datetime.now(UTC))
        return _encode({"id": str(record.view.id), "activity": _activity(activity, following)})

    def _columns(self, record: WorkspaceRecord) -> str:
        """The part that depends on the row alone, without its closing brace. Equal rows, equal bytes."""
        known = self._rendered.get(record.view.id)
        if known is not None and known[0] == record:
            return known[1]
        columns = _encode({**_columns_of(record), "url": self._url.format(id=record.view.id)})[:-1]
        self._rendered.put(record.view.id, (record, columns))
        return columns


def _of(activities: Mapping[UUID, Activity] | None, workspace_id: UUID) -> Activity | None:
    """None only if nobody can tell; a workspace Redis has never heard of was simply not used."""
    if activities is None:
        return None
    activity = activities.get(workspace_id, _UNUSED)
    return _UNUSED if activity == _UNUSED else activity


def _tail(percent: int | None, activity: Activity | None, following: Transition | None) -> str:
    """The part that changes without the row: what follows the columns, with the closing brace."""
    return "," + _encode({"progress": percent, "activity": _activity(activity, following)})[1:]


def _activity(activity: Activity | None, following: Transition | None) -> dict[str, Any]:
    heard = activity or _UNUSED
    next_ = None
    if following is not None:
        next_ = {"to": following.to.value, "at": _time(following.at), "why": following.why}
    return {
        "connections": heard.connections if activity else None,
        "last_seen_at": _time(heard.last_seen_at),
        "kind": heard.kind,
        "next": next_,
    }


def _columns_of(record: WorkspaceRecord) -> dict[str, Any]:
    """Every column people may see, in the order of the schema."""
    ws = record.view
    return {
        "id": str(ws.id),
        "owner_id": str(ws.owner_id),
        "name": record.name,
        "description": record.description,
        "memo": record.memo,
        "image_ref": ws.image_ref,
        "desired_state": ws.desired_state.value,
        "standby_ttl_seconds": ws.standby_ttl_seconds,
        "archive_ttl_seconds": ws.archive_ttl_seconds,
        "last_access_at": _time(ws.last_access_at),
        "awake_until": _time(ws.awake_until),
        "active_until": _time(ws.active_until),
        "deleted_at": _time(ws.deleted_at),
        "observed_status": ws.observed_status.value,
        "health_status": ws.health_status.value,
        "observed_at": _time(ws.observed_at),
        "operation": ws.operation.value,
        "op_id": str(ws.op_id) if ws.op_id else None,
        "op_seq": ws.op_seq,
        "op_started_at": _time(ws.op_started_at),
        "op_acted_at": _time(ws.op_acted_at),
        "archive_key": ws.archive_key,
        "error_count": ws.error_count,
        "error_info": ws.error_info.as_json() if ws.error_info else None,
        "last_retry_at": _time(ws.last_retry_at),
        "previous_status": ws.previous_status.value if ws.previous_status else None,
        "version": ws.version,
        "created_at": _time(record.created_at),
        "updated_at": _time(record.updated_at),
        "status": record.status,
        "holds_place": holds_place(ws),
    }


def _time(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment is not None else None


def _url_pattern(base_url: str, base_domain: str | None) -> str:
    if base_domain is None:
        return base_url.rstrip("/") + "/w/{id}/"
    base = urlsplit(base_url)
    port = f":{base.port}" if base.port and ":" not in base_domain else ""
    return f"{base.scheme}://{{id}}.{base_domain}{port}/"


_UNUSED = Activity()
_NOTHING_GOING_ON = _tail(None, _UNUSED, None)  # most of a long list sleeps
