"""Names and labels of our objects in the cluster.

A name alone proves nothing: another program, or another CodeHub in the same namespace, may have taken it. A label
alone proves nothing either: people copy pods with their labels. An object is ours when it has the name *and* the
labels of our installation, its workspace and its role.

    ws-{id}              pod         role workspace
    ws-{id}-job          pod         role storage-job
    ws-{id}-home         claim       role home
    ws-{id}-fence-{…}    ConfigMap   role fence: the highest token seen (``fences``)
    ws-{id}-job-{…}      Secret      role order: what a storage job is to do, owned by its pod
    codehub-{…}          ConfigMap   role marker: this namespace holds our homes (``marker``)

The token is an annotation: tokens change while an object exists, and nothing is ever selected by them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import Any
from uuid import UUID

from codehub.runtimes.base import FencingToken

Document = dict[str, Any]

CONTAINER = "workspace"
JOB_CONTAINER = "job"
"""Names of containers. What an operator's patch or an admission plug-in adds has others."""

WORKSPACE = "codehub.workspace"
INSTALLATION = "codehub.installation"
ROLE = "codehub.role"

TOKEN = "codehub.token"
OP_ID = "codehub.op-id"  # storage jobs: their operation
PORT = "codehub.port"
IMAGE = "codehub.image"
WRITTEN_AT = "codehub.written-at"  # fences
HOME_KIND = "codehub.home-kind"  # claims: what becomes of the home when a node is lost


class ObjectRole(StrEnum):
    WORKSPACE = "workspace"
    STORAGE_JOB = "storage-job"
    HOME = "home"
    FENCE = "fence"
    ORDER = "order"
    MARKER = "marker"


@dataclass(frozen=True)
class Names:
    """The names and labels of one installation."""

    installation_id: str

    @property
    def marker(self) -> str:
        return f"codehub-{self.installation_id}"

    @property
    def mark(self) -> str:
        """Short form of the installation, for names that two installations must not share."""
        return sha256(self.installation_id.encode()).hexdigest()[:8]

    def pod(self, workspace_id: UUID) -> str:
        return f"ws-{workspace_id}"

    def job(self, workspace_id: UUID) -> str:
        return f"ws-{workspace_id}-job"

    def home(self, workspace_id: UUID) -> str:
        return f"ws-{workspace_id}-home"

    def fence(self, workspace_id: UUID) -> str:
        return f"ws-{workspace_id}-fence-{self.mark}"

    def labels(self, workspace_id: UUID, role: ObjectRole) -> dict[str, str]:
        return {INSTALLATION: self.installation_id, WORKSPACE: str(workspace_id), ROLE: role.value}

    @property
    def ours(self) -> str:
        """Label selector of everything of this installation."""
        return f"{INSTALLATION}={self.installation_id}"

    @property
    def not_ours(self) -> str:
        """Label selector of everything else."""
        return f"{INSTALLATION}!={self.installation_id}"

    def are_ours(self, document: Document, workspace_id: UUID, role: ObjectRole) -> bool:
        found = labels_of(document)
        return (
            found.get(INSTALLATION) == self.installation_id
            and found.get(WORKSPACE) == str(workspace_id)
            and found.get(ROLE) == role.value
        )


def unchanged(uid: str, version: str) -> Document:
    """Metadata of a patch for the object that was read with this uid and resource version; else ``Conflict``.

    It also ends the record of who set which field (managedFields): nobody applies to these objects, and it is half of
    a listing and three quarters of the time to parse one.
    """
    return {"uid": uid, "resourceVersion": version, "managedFields": [{}]}


def labels_of(document: Mapping[str, Any]) -> dict[str, str]:
    return dict((document.get("metadata") or {}).get("labels") or {})


def annotations_of(document: Mapping[str, Any]) -> dict[str, str]:
    return dict((document.get("metadata") or {}).get("annotations") or {})


def token_text(token: FencingToken) -> str:
    return f"{token.op_seq}.{token.epoch}"


def find_token(document: Mapping[str, Any]) -> FencingToken | None:
    op_seq, dot, epoch = annotations_of(document).get(TOKEN, "").partition(".")
    try:
        return FencingToken(int(op_seq), int(epoch)) if dot else None
    except ValueError:
        return None


def find_workspace(document: Mapping[str, Any]) -> UUID | None:
    try:
        return UUID(labels_of(document).get(WORKSPACE, ""))
    except ValueError:
        return None


def find_role(document: Mapping[str, Any]) -> ObjectRole | None:
    try:
        return ObjectRole(labels_of(document).get(ROLE, ""))
    except ValueError:
        return None
