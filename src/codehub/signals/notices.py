"""Notices on the way from a changed row to a browser, and their JSON.

A notice is a change, progress, activity, or a resync. The trigger's NOTIFY payload is one notice, a message
on Redis a list of them in the same JSON, so one parser serves both ends. It is strict: a payload that does
not parse completely is no notice. A notice carries no state either; readers fetch the workspace from the
database and compare versions.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

MAX_PAYLOAD_BYTES = 1024 * 1024
MAX_TOGETHER = 200

LIVE_CHANNEL = "codehub:live"
RESYNC_CHANNEL = "codehub:resync"
PEOPLE_CHANNEL = "codehub:people"


@dataclass(frozen=True)
class Change:
    """A visible column of a workspace changed. ``version`` strictly increases."""

    id: UUID
    owner_id: UUID
    version: int
    changed: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Progress:
    """Progress of an operation in flight. Carries no version and replaces nothing."""

    id: UUID
    owner_id: UUID
    progress: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ActivityChanged:
    """Connections or the idle timer of a workspace changed; readers read Redis."""

    id: UUID
    owner_id: UUID


@dataclass(frozen=True)
class PersonChanged:
    """A person's rights changed (signed out, disabled, another role): check again."""

    user_id: UUID


@dataclass(frozen=True)
class Resync:
    """Notices may have been missed: discard cached state and read it again."""


OfWorkspace = Change | Progress | ActivityChanged
Notice = OfWorkspace | PersonChanged | Resync


def encode_notices(notices: Sequence[OfWorkspace]) -> list[bytes]:
    """Encode notices into as few messages as they fit into, in order."""
    return [
        json.dumps(
            [_content(notice) for notice in notices[at : at + MAX_TOGETHER]], separators=(",", ":")
        ).encode()
        for at in range(0, len(notices), MAX_TOGETHER)
    ]


def encode_notice(notice: OfWorkspace) -> bytes:
    return json.dumps(_content(notice), separators=(",", ":")).encode()


def parse_notice(payload: str | bytes) -> OfWorkspace | None:
    """Parse a notice about a workspace; None for anything else."""
    return _read(_load(payload))


def parse_notices(payload: bytes) -> list[OfWorkspace | None]:
    """Parse the notices of one message; None in place of each invalid one."""
    content = _load(payload)
    return [_read(each) for each in content] if isinstance(content, list) else [None]


def parse_person(payload: bytes) -> PersonChanged | None:
    try:
        return PersonChanged(UUID(payload.decode()))
    except ValueError:
        return None


def _content(notice: OfWorkspace) -> dict[str, Any]:
    content: dict[str, Any] = {"id": str(notice.id), "owner_id": str(notice.owner_id)}
    match notice:
        case Change():
            content |= {"version": notice.version, "changed": sorted(notice.changed)}
        case Progress():
            content |= {"progress": dict(notice.progress)}
        case ActivityChanged():
            content |= {"activity": True}
    return content


def _load(payload: str | bytes) -> Any:
    if len(payload) > MAX_PAYLOAD_BYTES:
        return None
    try:
        return json.loads(payload)
    except (ValueError, RecursionError):
        return None


def _read(content: Any) -> OfWorkspace | None:
    if not isinstance(content, dict):
        return None
    try:
        workspace_id, owner_id = UUID(content["id"]), UUID(content["owner_id"])
    except (ValueError, TypeError, AttributeError, KeyError):
        return None
    if "progress" in content:
        progress = content["progress"]
        return Progress(workspace_id, owner_id, progress) if isinstance(progress, dict) else None
    if "activity" in content:
        return ActivityChanged(workspace_id, owner_id)
    return _parse_change(workspace_id, owner_id, content)


def _parse_change(workspace_id: UUID, owner_id: UUID, content: Mapping[str, Any]) -> Change | None:
    version, changed = content.get("version"), content.get("changed")
    if type(version) is not int or version < 1:  # a bool is an int, and no version
        return None
    if not isinstance(changed, list) or not all(isinstance(column, str) for column in changed):
        return None
    return Change(workspace_id, owner_id, version, frozenset(changed))
