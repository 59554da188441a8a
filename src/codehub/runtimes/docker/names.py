"""Names and labels of our resources on the Docker engine.

A name alone proves nothing: another program, or another CodeHub, may have taken it. A label alone proves nothing
either: people copy containers with their labels. A resource is ours when it has the name *and* the labels of our
installation, its workspace and its role; a container also mounts the home.

    ws-{id}            container   role workspace
    ws-{id}-job        container   role storage-job
    ws-{id}-home       volume      role home
    ws-{id}-fence-…    volume      role fence: the highest token seen (``fences``)
    codehub-{…}        volume      role marker: this engine holds our homes (``marker``)
    codehub-{…}-inside-…           ``inside`` for workspaces to mount (``inside_volume``)
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import Any
from uuid import UUID

from codehub.runtimes.base import FencingToken

WORKSPACE = "codehub.workspace"
INSTALLATION = "codehub.installation"
ROLE = "codehub.role"
OP_SEQ = "codehub.op_seq"
EPOCH = "codehub.epoch"
OP_ID = "codehub.op_id"  # storage jobs: their operation
INSIDE = "codehub.inside"  # on containers that mount ``inside``
COPY = "codehub.copy"  # on the record of a version of ``inside``: the volume that has it
ACCIDENT = "codehub.made_by_accident"  # on a volume that Docker created because it was missing

# Labels of images (see docs/operate/images.md), copied to the container so that one listing has them.
PORT = "codehub.port"
HOME = "codehub.home"
BASE_PATH = "codehub.base-path"
IMAGE = "codehub.image"


class ObjectRole(StrEnum):
    WORKSPACE = "workspace"
    STORAGE_JOB = "storage-job"
    HOME = "home"
    FENCE = "fence"
    MARKER = "marker"
    INSIDE = "inside"
    INSIDE_RECORD = "inside-record"
    INSIDE_FILLING = "inside-filling"


@dataclass(frozen=True)
class Names:
    """The names and labels of one installation."""

    installation_id: str

    @property
    def marker(self) -> str:
        return f"codehub-{self.installation_id}"

    def inside(self, digest: str) -> str:
        return f"codehub-{self.installation_id}-inside-{digest[:12]}"

    def container(self, workspace_id: UUID) -> str:
        return f"ws-{workspace_id}"

    def job(self, workspace_id: UUID) -> str:
        return f"ws-{workspace_id}-job"

    def home(self, workspace_id: UUID) -> str:
        return f"ws-{workspace_id}-home"

    def fence(self, workspace_id: UUID, token: FencingToken) -> str:
        """Name of a fence. Contains the installation: volumes of one name are one volume."""
        mark = sha256(self.installation_id.encode()).hexdigest()[:8]
        return f"ws-{workspace_id}-fence-{mark}-{token.op_seq}-{token.epoch}"

    def labels(self, workspace_id: UUID, role: ObjectRole, token: FencingToken) -> dict[str, str]:
        return {
            INSTALLATION: self.installation_id,
            WORKSPACE: str(workspace_id),
            ROLE: role.value,
            OP_SEQ: str(token.op_seq),
            EPOCH: str(token.epoch),
        }

    def are_ours(self, labels: Mapping[str, str] | None, workspace_id: UUID, role: ObjectRole) -> bool:
        found = labels or {}
        return (
            found.get(INSTALLATION) == self.installation_id
            and found.get(WORKSPACE) == str(workspace_id)
            and found.get(ROLE) == role.value
        )


def find_workspace(labels: Mapping[str, str] | None) -> UUID | None:
    try:
        return UUID((labels or {}).get(WORKSPACE, ""))
    except ValueError:
        return None


def find_role(labels: Mapping[str, str] | None) -> ObjectRole | None:
    try:
        return ObjectRole((labels or {}).get(ROLE, ""))
    except ValueError:
        return None


def find_token(labels: Mapping[str, str] | None) -> FencingToken | None:
    found = labels or {}
    try:
        return FencingToken(int(found[OP_SEQ]), int(found[EPOCH]))
    except (KeyError, ValueError):
        return None


def is_named(listed: Mapping[str, Any], name: str) -> bool:
    """Whether a listed container has this name; Docker puts a slash before names."""
    return f"/{name}" in (listed.get("Names") or ())
