"""Sort two listings of the engine into what exists of each workspace. Pure.

A change between the two listings may look like a container without its volume, which would be a broken
invariant. ``lacks_volume`` reports that, and the caller lists once more, then containers before volumes: what was
started in between has its volume in the second list.

A container is ours when name, labels and mount match. Any other container that mounts a home is a *stranger*: one
made by hand, or one of ours that was renamed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from codehub.domain.endings import Ending
from codehub.domain.states import ContainerState
from codehub.runtimes.base import Address, FencingToken, Observation, Sighting
from codehub.runtimes.docker.engine import Document
from codehub.runtimes.docker.names import (
    PORT,
    Names,
    ObjectRole,
    find_role,
    find_token,
    find_workspace,
    is_named,
)

DEFAULT_PORT = 8080
_RUNNING = {"running", "paused", "restarting"}
"""A paused container holds its memory and its volume until it is ended: it counts as running, with
``Sighting.paused`` set."""


@dataclass(frozen=True)
class Container:
    """One container of ours, workspace or storage job."""

    id: str
    state: str
    labels: Mapping[str, str]
    address: Address | None = None
    ending: Ending | None = None  # only known from an inspection of this container

    @property
    def is_running(self) -> bool:
        return self.state in _RUNNING

    @property
    def token(self) -> FencingToken:
        return find_token(self.labels) or FencingToken(0, 0)


@dataclass(frozen=True)
class Stranger:
    """A container that mounts a home and is not its workspace's."""

    name: str
    is_running: bool


@dataclass(frozen=True)
class FenceVolume:
    """An empty volume that records a token."""

    name: str
    token: FencingToken
    created_at: str


@dataclass
class Resources:
    """What exists of one workspace on the engine."""

    container: Container | None = None
    job: Container | None = None
    home: bool = False
    home_token: FencingToken | None = None  # the token it was created with
    fences: list[FenceVolume] = field(default_factory=list)
    strangers: list[Stranger] = field(default_factory=list)  # only known from a listing of this one

    @property
    def highest_token(self) -> FencingToken:
        held = [each.token for each in (self.container, self.job) if each is not None]
        made = [] if self.home_token is None else [self.home_token]
        return max([*held, *made, *(fence.token for fence in self.fences)], default=FencingToken(0, 0))

    @property
    def is_asleep(self) -> bool:
        """A home without containers: what a start usually finds."""
        alone = self.container is None and self.job is None
        return self.home and alone and not any(each.is_running for each in self.strangers)

    @property
    def lacks_volume(self) -> bool:
        return self.container is not None and not self.home

    @property
    def sighting(self) -> Sighting:
        container = self.container
        running = container is not None and container.is_running
        return Sighting(
            container=ContainerState.NONE
            if container is None
            else ContainerState.RUNNING
            if running
            else ContainerState.DEAD,
            volume=self.home,
            address=container.address if container is not None and running else None,
            paused=container is not None and container.state == "paused",
            storage_job=self.job is not None and self.job.is_running,
        )


def sort_resources(
    names: Names, *, containers: Iterable[Document], volumes: Iterable[Document]
) -> dict[UUID, Resources]:
    """Group by workspace. What lacks our name, workspace or role is left out."""
    found: dict[UUID, Resources] = {}
    for listed in containers:
        _sort_container(names, listed, found)
    for volume in volumes:
        _sort_volume(names, volume, found)
    return found


def find_strangers(names: Names, workspace_id: UUID, containers: Iterable[Document]) -> list[Stranger]:
    """Containers that mount this home and are neither its workspace nor its job."""
    ours = {
        ObjectRole.WORKSPACE: names.container(workspace_id),
        ObjectRole.STORAGE_JOB: names.job(workspace_id),
    }
    return [
        Stranger(
            name=str((listed.get("Names") or [listed["Id"][:12]])[0]).removeprefix("/"),
            is_running=listed.get("State") in _RUNNING,
        )
        for listed in containers
        if not any(
            is_named(listed, name) and names.are_ours(listed.get("Labels"), workspace_id, role)
            for role, name in ours.items()
        )
    ]


def mounts(listed: Document, volume: str) -> bool:
    return any(each.get("Name") == volume for each in listed.get("Mounts") or ())


def observation(found: Mapping[UUID, Resources]) -> Observation:
    """Convert to an ``Observation``. Fences are not part of a workspace."""
    seen = {workspace_id: resources.sighting for workspace_id, resources in found.items()}
    return Observation(sightings={key: value for key, value in seen.items() if value != Sighting()})


def address_of(networks: Mapping[str, Document] | None, labels: Mapping[str, str]) -> Address | None:
    """The container's address on the one network it is in."""
    hosts = [each.get("IPAddress") for each in (networks or {}).values()]
    host = next((each for each in hosts if each), None)
    return None if host is None else Address(host, port_of(labels))


def port_of(labels: Mapping[str, str]) -> int:
    """The port the image listens on: its label ``codehub.port``, or the default."""
    text = labels.get(PORT, "")
    return int(text) if text.isdigit() and 0 < int(text) < 65536 else DEFAULT_PORT


def _sort_container(names: Names, listed: Document, found: dict[UUID, Resources]) -> None:
    labels = listed.get("Labels") or {}
    workspace_id, role = find_workspace(labels), find_role(labels)
    if workspace_id is None or role is None or not names.are_ours(labels, workspace_id, role):
        return
    if not mounts(listed, names.home(workspace_id)):
        return
    networks = (listed.get("NetworkSettings") or {}).get("Networks")
    container = Container(
        id=str(listed["Id"]),
        state=str(listed.get("State", "")),
        labels=labels,
        address=address_of(networks, labels),
    )
    if role is ObjectRole.WORKSPACE and is_named(listed, names.container(workspace_id)):
        found.setdefault(workspace_id, Resources()).container = container
    elif role is ObjectRole.STORAGE_JOB and is_named(listed, names.job(workspace_id)):
        found.setdefault(workspace_id, Resources()).job = container


def _sort_volume(names: Names, volume: Document, found: dict[UUID, Resources]) -> None:
    labels = volume.get("Labels") or {}
    workspace_id, role = find_workspace(labels), find_role(labels)
    if workspace_id is None or role is None or not names.are_ours(labels, workspace_id, role):
        return
    name = str(volume["Name"])
    if role is ObjectRole.HOME and name == names.home(workspace_id):
        resources = found.setdefault(workspace_id, Resources())
        resources.home, resources.home_token = True, find_token(labels)
    elif role is ObjectRole.FENCE and (token := find_token(labels)) is not None:
        fence = FenceVolume(name=name, token=token, created_at=str(volume.get("CreatedAt") or ""))
        found.setdefault(workspace_id, Resources()).fences.append(fence)
