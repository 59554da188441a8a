"""Read pods and claims as values, and sort listings into what exists of each workspace. Pure.

States: a pod runs when its own container does, whatever becomes of others that an operator has added; while that is not
known, when its phase is Running. One that waits for its gate or for a node, or has ended, is a dead container: it
exists, holds its name, and serves nobody. One that is being deleted counts as present until it is gone: with its node
away, its containers may still run.

An item that lacks what every object has is *unreadable*: nothing follows about its workspace.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from codehub.domain.states import ContainerState
from codehub.runtimes.base import Address, FencingToken, Observation, Sighting
from codehub.runtimes.kubernetes.catalogue import HomeKind
from codehub.runtimes.kubernetes.names import (
    CONTAINER,
    HOME_KIND,
    JOB_CONTAINER,
    PORT,
    Document,
    Names,
    ObjectRole,
    annotations_of,
    find_role,
    find_token,
    find_workspace,
)
from codehub.runtimes.kubernetes.quantities import find_bytes

GATE = "codehub/verified"
"""Scheduling gate: no node takes the pod before its creator has read the fence once more."""
SELECTED_NODE = "volume.kubernetes.io/selected-node"
"""Set by the scheduler on claims that wait for their first pod."""
_ENDED = ("Succeeded", "Failed")
_UNKNOWN = "Unknown"
_NAME = re.compile(r"ws-([0-9a-f-]{36})(?:-job|-home)?")


@dataclass(frozen=True)
class Pod:
    """One pod, as it was read. ``version``: its resource version, for calls that must find it unchanged."""

    name: str
    uid: str
    version: str
    phase: str
    token: FencingToken
    gated: bool
    terminating: bool
    document: Document = field(repr=False, compare=False)

    @property
    def has_ended(self) -> bool:
        # No container begins again (restartPolicy Never), whatever becomes of the others.
        return self.phase in _ENDED or (self.phase != _UNKNOWN and "terminated" in self._state)

    @property
    def is_running(self) -> bool:
        # Unknown: its node does not answer, and it may run.
        if self.phase in ("Running", _UNKNOWN):
            return not self.has_ended
        return not self.has_ended and "running" in self._state

    @property
    def may_run(self) -> bool:
        """Whether any of its containers runs, or may begin to without another call of ours."""
        return self.phase not in _ENDED and not self.gated

    @property
    def status(self) -> Mapping[str, Any]:
        return self.document.get("status") or {}

    @property
    def node(self) -> str | None:
        return (self.document.get("spec") or {}).get("nodeName")

    @property
    def address(self) -> Address | None:
        host, port = self.status.get("podIP"), annotations_of(self.document).get(PORT, "")
        return Address(str(host), int(port)) if host and port.isdigit() else None

    @property
    def container(self) -> Mapping[str, Any]:
        """Status of its own container; empty: not known yet."""
        statuses = self.status.get("containerStatuses") or ()
        return next((each for each in statuses if each.get("name") == self.container_name), {})

    @property
    def container_name(self) -> str:
        return JOB_CONTAINER if find_role(self.document) is ObjectRole.STORAGE_JOB else CONTAINER

    @property
    def _state(self) -> Mapping[str, Any]:
        return self.container.get("state") or {}


@dataclass(frozen=True)
class Home:
    """The claim of a home.

    ``size``: bytes that were asked for; None: not known, or not bound to a volume yet.
    ``node``: where its volume was made, if the scheduler chose one for it. ``node_local``: it is lost with that node.
    """

    name: str
    uid: str
    version: str
    token: FencingToken
    terminating: bool
    size: int | None = None
    node: str | None = None
    node_local: bool = False


@dataclass
class Resources:
    """What exists of one workspace."""

    pod: Pod | None = None
    job: Pod | None = None
    home: Home | None = None
    strangers: list[str] = field(default_factory=list)  # pods that use the home and are not ours
    unreadable: bool = False

    @property
    def highest_token(self) -> FencingToken:
        found = [each.token for each in (self.pod, self.job, self.home) if each is not None]
        return max(found, default=FencingToken(0, 0))

    @property
    def sighting(self) -> Sighting:
        pod = self.pod
        running = pod is not None and pod.is_running
        return Sighting(
            container=ContainerState.NONE
            if pod is None
            else ContainerState.RUNNING
            if running
            else ContainerState.DEAD,
            volume=self.home is not None,
            address=pod.address if pod is not None and running else None,
            storage_job=self.job is not None and not self.job.has_ended,
        )


def read_pod(document: Document) -> Pod:
    metadata, spec = document["metadata"], document.get("spec") or {}
    return Pod(
        name=str(metadata["name"]),
        uid=str(metadata["uid"]),
        version=str(metadata["resourceVersion"]),
        phase=str((document.get("status") or {}).get("phase") or "Pending"),
        token=find_token(document) or FencingToken(0, 0),
        gated=bool(spec.get("schedulingGates")),
        terminating="deletionTimestamp" in metadata,
        document=document,
    )


def read_home(document: Document) -> Home:
    metadata = document["metadata"]
    return Home(
        name=str(metadata["name"]),
        uid=str(metadata["uid"]),
        version=str(metadata["resourceVersion"]),
        token=find_token(document) or FencingToken(0, 0),
        terminating="deletionTimestamp" in metadata,
        size=claimed_bytes(document) if (document.get("status") or {}).get("phase") == "Bound" else None,
        node=annotations_of(document).get(SELECTED_NODE),
        node_local=annotations_of(document).get(HOME_KIND) == HomeKind.NODE_LOCAL,
    )


def claimed_bytes(claim: Document) -> int | None:
    """How much a claim asks for."""
    resources = (claim.get("spec") or {}).get("resources") or {}
    return find_bytes((resources.get("requests") or {}).get("storage"))


def sort_resources(
    names: Names, *, pods: Iterable[Document], claims: Iterable[Document]
) -> dict[UUID, Resources]:
    """Group by workspace. What lacks our name, workspace or role is left out."""
    found: dict[UUID, Resources] = {}
    for document in (*pods, *claims):
        try:
            _sort(names, document, found)
        except (KeyError, TypeError, ValueError, AttributeError):
            if (workspace_id := _guess_workspace(document)) is not None:
                found.setdefault(workspace_id, Resources()).unreadable = True
    return found


def observation(found: Mapping[UUID, Resources]) -> Observation:
    unreadable = frozenset(each for each, resources in found.items() if resources.unreadable)
    seen = {each: resources.sighting for each, resources in found.items() if each not in unreadable}
    return Observation(
        sightings={key: value for key, value in seen.items() if value != Sighting()}, unreadable=unreadable
    )


def claims_of(document: Document) -> set[str]:
    """Names of the claims a pod uses."""
    volumes = (document.get("spec") or {}).get("volumes") or ()
    return {
        str(each["persistentVolumeClaim"].get("claimName"))
        for each in volumes
        if each.get("persistentVolumeClaim")
    }


def find_strangers(names: Names, workspace_id: UUID, pods: Iterable[Document]) -> list[str]:
    """Pods that use this home, have not ended, and are neither its workspace nor its job."""
    ours = {ObjectRole.WORKSPACE: names.pod(workspace_id), ObjectRole.STORAGE_JOB: names.job(workspace_id)}
    return [
        str(document["metadata"]["name"])
        for document in pods
        if names.home(workspace_id) in claims_of(document)
        and (document.get("status") or {}).get("phase") not in _ENDED
        and not any(
            document["metadata"]["name"] == name and names.are_ours(document, workspace_id, role)
            for role, name in ours.items()
        )
    ]


def _sort(names: Names, document: Document, found: dict[UUID, Resources]) -> None:
    workspace_id, role = find_workspace(document), find_role(document)
    if workspace_id is None or role is None or not names.are_ours(document, workspace_id, role):
        return
    name = document["metadata"]["name"]
    if role is ObjectRole.WORKSPACE and name == names.pod(workspace_id):
        found.setdefault(workspace_id, Resources()).pod = read_pod(document)
    elif role is ObjectRole.STORAGE_JOB and name == names.job(workspace_id):
        found.setdefault(workspace_id, Resources()).job = read_pod(document)
    elif role is ObjectRole.HOME and name == names.home(workspace_id):
        found.setdefault(workspace_id, Resources()).home = read_home(document)


def _guess_workspace(document: Any) -> UUID | None:
    """The workspace of an item that cannot be read, by its label or its name."""
    try:
        if (workspace_id := find_workspace(document)) is not None:
            return workspace_id
        found = _NAME.fullmatch(str(document["metadata"]["name"]))
        return UUID(found[1]) if found else None
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
