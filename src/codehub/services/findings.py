"""List where rows, engine and archive store disagree, and which repair a person may ask for. Pure.

A finding is something an operator should know of: a workspace in error, an operation that takes long, a home or an
archive that no row names. ``services/repairs`` does what is asked for.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

from codehub.archives.keys import parse_archive_key
from codehub.domain.states import Operation
from codehub.services.overview import Orphan, OrphanReason
from codehub.store.workspaces.records import WorkspaceRecord

LONG_AFTER = timedelta(minutes=10)
"""An operation that has lasted longer than this is listed. Its timeout ends it, or a person learns why it does not."""


class FindingKind(StrEnum):
    """What disagrees."""

    ERROR = "error"  # a workspace that only a person lifts
    VOLUME_VANISHED = "volume_vanished"  # a completed home is gone although nobody removed it
    ARCHIVING_GIVEN_UP = "archiving_given_up"  # retried later; the home stays where it is
    LONG_OPERATION = "long_operation"
    ONLY_COPY = "only_copy"  # an archive is the only copy of a workspace's home, and its row does not name it
    UNKNOWN_CONTAINER = "unknown_container"  # removed by the Observer after a delay
    UNKNOWN_VOLUME = "unknown_volume"
    UNKNOWN_ARCHIVE = "unknown_archive"
    RETAINED_VOLUME = "retained_volume"  # an engine keeps the volume of a home that is gone
    EXPIRING_ARCHIVE = "expiring_archive"  # removed by the archive GC after its delay


class Repair(StrEnum):
    """What a person may ask for."""

    RECOVER = "recover"
    RETURN_TO_NEWEST = "return_to_newest"  # the newest archive in the store becomes the home
    ADOPT = "adopt"


REPAIRS: Mapping[FindingKind, tuple[Repair, ...]] = {
    FindingKind.ERROR: (Repair.RECOVER,),
    FindingKind.VOLUME_VANISHED: (Repair.RETURN_TO_NEWEST, Repair.RECOVER),
    FindingKind.ARCHIVING_GIVEN_UP: (Repair.RECOVER,),
    FindingKind.LONG_OPERATION: (),
    FindingKind.ONLY_COPY: (Repair.RETURN_TO_NEWEST,),
    FindingKind.UNKNOWN_CONTAINER: (),
    FindingKind.UNKNOWN_VOLUME: (Repair.ADOPT,),
    FindingKind.UNKNOWN_ARCHIVE: (Repair.ADOPT,),
    FindingKind.RETAINED_VOLUME: (),
    FindingKind.EXPIRING_ARCHIVE: (),
}


@dataclass(frozen=True)
class Finding:
    """Something that disagrees. ``workspace_id`` is what a repair is asked for; it need not have a row."""

    kind: FindingKind
    subject: str
    workspace_id: UUID | None = None
    name: str | None = None
    owner_id: UUID | None = None
    since: datetime | None = None
    bytes: int | None = None
    message: str | None = None
    operation: Operation | None = None

    @property
    def repairs(self) -> tuple[Repair, ...]:
        return REPAIRS[self.kind] if self.workspace_id is not None else ()


def list_findings(
    troubled: Iterable[WorkspaceRecord], orphans: Iterable[Orphan], *, now: datetime
) -> list[Finding]:
    """Sort rows in trouble and orphans into findings: what a person must decide comes first. Pure.

    An archive counts once for each workspace and kind: its generations are one decision.
    """
    found = [*_of_rows(troubled, now=now), *_of_orphans(orphans)]
    order = list(FindingKind)
    return sorted(found, key=lambda each: (order.index(each.kind), each.subject))


def _of_rows(troubled: Iterable[WorkspaceRecord], *, now: datetime) -> Iterator[Finding]:
    for record in troubled:
        kind, since = _trouble(record, now=now)
        if kind is None:
            continue
        error = record.view.error_info
        yield Finding(
            kind,
            record.name,
            workspace_id=record.view.id,
            name=record.name,
            owner_id=record.view.owner_id,
            since=since,
            message=error.message if error is not None else None,
            operation=record.view.operation,
        )


def _trouble(record: WorkspaceRecord, *, now: datetime) -> tuple[FindingKind | None, datetime | None]:
    view = record.view
    occurred_at = view.error_info.occurred_at if view.error_info is not None else None
    if view.in_error:
        kind = FindingKind.VOLUME_VANISHED if view.volume_has_vanished else FindingKind.ERROR
        return kind, occurred_at
    if view.archiving_given_up:
        return FindingKind.ARCHIVING_GIVEN_UP, occurred_at
    if view.op_started_at is not None and now - view.op_started_at > LONG_AFTER:
        return FindingKind.LONG_OPERATION, view.op_started_at
    return None, None


_OF_KIND = {
    "container": FindingKind.UNKNOWN_CONTAINER,
    "volume": FindingKind.UNKNOWN_VOLUME,
    "archive": FindingKind.UNKNOWN_ARCHIVE,
}
_OF_REASON = {
    OrphanReason.ONLY_COPY: FindingKind.ONLY_COPY,
    OrphanReason.RETAINED: FindingKind.RETAINED_VOLUME,
    OrphanReason.EXPIRING: FindingKind.EXPIRING_ARCHIVE,
}


def _of_orphans(orphans: Iterable[Orphan]) -> Iterator[Finding]:
    seen: set[tuple[FindingKind, UUID]] = set()
    for orphan in orphans:
        kind = _OF_REASON.get(orphan.why) or _OF_KIND[orphan.kind]
        workspace_id = _workspace_of(orphan)
        if workspace_id is not None:
            if (kind, workspace_id) in seen:
                continue
            seen.add((kind, workspace_id))
        yield Finding(
            kind, orphan.name, workspace_id=workspace_id, since=orphan.first_seen_at, bytes=orphan.bytes
        )


def _workspace_of(orphan: Orphan) -> UUID | None:
    if orphan.why is OrphanReason.RETAINED:  # named by its engine
        return None
    if orphan.kind == "archive":
        path = parse_archive_key(orphan.name)
        return path.workspace_id if path is not None else None
    return UUID(orphan.name.removeprefix("ws-").removesuffix("-home"))
