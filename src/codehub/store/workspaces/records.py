"""Read rows of ``workspaces`` as plain values.

The domain rules read a ``WorkspaceView``; the API returns a ``WorkspaceRecord``, which adds the columns only
people need. ``VIEW`` and ``RECORD`` are selected, or returned by a write, like a column.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import type_coerce
from sqlmodel import col

from codehub.domain.busy import Busy
from codehub.domain.copies import CopySource
from codehub.domain.errors import ErrorInfo
from codehub.domain.generations import ChosenArchive
from codehub.domain.snapshots import Snapshot, Snapshots, WantedSnapshot
from codehub.domain.workspace import HomeContext, WorkspaceView
from codehub.store.db.records import FromJson, record
from codehub.store.schema.tables import Workspace

_NO_HOME = HomeContext()


@dataclass(frozen=True)
class WorkspaceRecord:
    """A workspace as people see it. ``status`` is the one word for all its axes."""

    view: WorkspaceView
    name: str
    description: str
    memo: str
    tags: list[str]
    pinned: bool
    created_at: datetime
    updated_at: datetime
    status: str


def home_context(value: Mapping[str, object] | None) -> HomeContext:
    return HomeContext.from_json(value) if value else _NO_HOME


def _error(value: Mapping[str, object] | None) -> ErrorInfo | None:
    return ErrorInfo.from_json(value) if value is not None else None


def _busy(value: Mapping[str, object] | None) -> Busy | None:
    return Busy.from_json(value) if value is not None else None


def chosen_archive(value: Mapping[str, object] | None) -> ChosenArchive | None:
    return ChosenArchive.from_json(value) if value is not None else None


def _wanted_snapshot(value: Mapping[str, object] | None) -> WantedSnapshot | None:
    return WantedSnapshot.from_json(value) if value is not None else None


def made_snapshots(value: object) -> Snapshots:
    return tuple(Snapshot.from_json(each) for each in value) if isinstance(value, list) else ()


def _copy_source(value: Mapping[str, object] | None) -> CopySource | None:
    return CopySource.from_json(value) if value is not None else None


VIEW = record(
    WorkspaceView,
    Workspace,
    busy=type_coerce(col(Workspace.busy), FromJson(_busy)),
    error_info=type_coerce(col(Workspace.error_info), FromJson(_error)),
    home=type_coerce(col(Workspace.home_ctx), FromJson(home_context)),
    restore_from=type_coerce(col(Workspace.restore_from), FromJson(chosen_archive)),
    snapshot_as=type_coerce(col(Workspace.snapshot_as), FromJson(_wanted_snapshot)),
    snapshots=type_coerce(col(Workspace.snapshots), FromJson(made_snapshots)),
    copy_of=type_coerce(col(Workspace.copy_of), FromJson(_copy_source)),
)
RECORD = record(WorkspaceRecord, Workspace, view=VIEW)
