"""Render workspaces as JSON, by the schema that the OpenAPI document shows.

Values come from our own rows, so nothing is validated again: the model is filled as it is and serialized by
pydantic's compiled serializer. Answers, lists and event streams all render here.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from codehub.api.live.progress import ProgressCache
from codehub.api.schemas import models
from codehub.domain import ttl
from codehub.domain.limits import holds_place
from codehub.domain.states import Operation
from codehub.domain.status import Status
from codehub.store.workspaces.records import WorkspaceRecord

_UNUSED = ttl.Activity()
_PEOPLE_SEE = tuple(
    name
    for name in models.Workspace.model_fields
    if name
    not in {"name", "description", "memo", "created_at", "updated_at", "status"}
    | {"holds_place", "progress", "url", "activity", "error_info"}
)
"""Fields of ``WorkspaceView`` that people see, by the names of the schema."""


class WorkspaceRenderer:
    def __init__(self, *, base_url: str, base_domain: str | None, progress: ProgressCache) -> None:
        self._progress = progress
        self._url = _url_pattern(base_url, base_domain)

    def one(self, record: WorkspaceRecord, activities: Mapping[UUID, ttl.Activity] | None) -> str:
        """``activities`` None: Redis is away, and nobody can tell who is connected."""
        return self._model(record, activities, now=datetime.now(UTC)).model_dump_json()

    def page(
        self,
        records: Iterable[WorkspaceRecord],
        activities: Mapping[UUID, ttl.Activity] | None,
        *,
        next_cursor: str | None,
    ) -> str:
        now = datetime.now(UTC)
        items = [self._model(record, activities, now=now) for record in records]
        return (
            models.Page[models.Workspace]
            .model_construct(items=items, next_cursor=next_cursor)
            .model_dump_json()
        )

    def activity(self, record: WorkspaceRecord, activities: Mapping[UUID, ttl.Activity] | None) -> str:
        """The part of ``one`` that changes without a new version, by itself."""
        model = _activity(record, activities, now=datetime.now(UTC))
        return f'{{"id":"{record.view.id}","activity":{model.model_dump_json()}}}'

    def _model(
        self, record: WorkspaceRecord, activities: Mapping[UUID, ttl.Activity] | None, *, now: datetime
    ) -> models.Workspace:
        view = record.view
        percent = None
        if view.operation is not Operation.NONE:
            percent = self._progress.percent(view.id, view.operation)
        columns: dict[str, Any] = {name: getattr(view, name) for name in _PEOPLE_SEE}
        return models.Workspace.model_construct(
            **columns,
            name=record.name,
            description=record.description,
            memo=record.memo,
            created_at=record.created_at,
            updated_at=record.updated_at,
            status=Status(record.status),
            error_info=_error_info(record),
            holds_place=holds_place(view),
            progress=percent,
            url=self._url.format(id=view.id),
            activity=_activity(record, activities, now=now),
        )


def _error_info(record: WorkspaceRecord) -> models.ErrorInfo | None:
    error = record.view.error_info
    if error is None:
        return None
    return models.ErrorInfo.model_construct(
        reason=error.reason,
        message=error.message,
        is_terminal=error.is_terminal,
        operation=error.operation,
        error_count=error.error_count,
        context=dict(error.context),
        occurred_at=error.occurred_at,
    )


def _activity(
    record: WorkspaceRecord, activities: Mapping[UUID, ttl.Activity] | None, *, now: datetime
) -> models.Activity:
    """A workspace Redis has never heard of was simply not used."""
    known = activities.get(record.view.id, _UNUSED) if activities is not None else None
    following = ttl.next_transition(record.view, activity=known, now=now)
    shown = known or _UNUSED
    return models.Activity.model_construct(
        connections=shown.connections if known is not None else None,
        last_seen_at=shown.last_seen_at,
        kind=shown.kind,
        next=following
        and models.NextChange.model_construct(to=following.to, at=following.at, why=following.why),
    )


def _url_pattern(base_url: str, base_domain: str | None) -> str:
    if base_domain is None:
        return base_url.rstrip("/") + "/w/{id}/"
    base = urlsplit(base_url)
    port = f":{base.port}" if base.port and ":" not in base_domain else ""
    return f"{base.scheme}://{{id}}.{base_domain}{port}/"
