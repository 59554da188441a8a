"""From two listings of the engine to what exists of each workspace. Pure.

What is made or removed between the two listings may look like a container without its volume, which would be
a broken invariant; ``looks_torn`` says so, and the caller looks once more before anybody believes it, then
with containers listed before volumes: what was started in between has its volume in the second list.

A container is ours when name, labels and mount say so. Whoever else mounts a home is a *stranger* to it: a
container somebody made by hand, and also one of ours that somebody renamed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from codehub.domain.endings import Ending
from codehub.domain.states import ContainerState
from codehub.runtimes.base import Address, Observation, Sighting, Token
from codehub.runtimes.docker.engine import Document
from codehub.runtimes.docker.names import (
    PORT,
    Names,
    Role,
    find_role,
    find_token,
    find_workspace,
    is_named,
)

DEFAULT_PORT = 8080
_RUNNING = {"running", "paused", "restarting"}
"""A paused container holds its memory and its volume until somebody ends it: it counts as running, and
``Sighting.paused`` says so."""


@dataclass(frozen=True)
class Container:
    """One container of ours, workspace or storage job."""

    id: str
    state: str
    labels: Mapping[str, str]
    address: Address | None = None
    ending: Ending | None = None  # known after it was looked at alone

    @property
    def is_running(self) -> bool:
        return self.state in _RUNNING

    @property
    def token(self) -> Token:
        return find_token(self.labels) or Token(0, 0)


@dataclass(frozen=True)
class Stranger:
    """A container that is not the workspace's and has its home mounted."""

    name: str
    is_running: bool


@dataclass(frozen=True)
class Fence:
    """A volume that holds nothing but a token."""

    name: str
    token: Token
    created_at: str


@dataclass
class Things:
    """What exists of one workspace."""

    container: Container | None = None
    job: Container | None = None
    home: bool = False
    home_token: Token | None = None  # of whoever made it
    fences: list[Fence] = field(default_factory=list)
    strangers: list[Stranger] = field(default_factory=list)  # known after a look at this one alone

    @property
    def highest_token(self) -> Token:
        held = [each.token for each in (self.container, self.job) if each is not None]
        made = [] if self.home_token is None else [self.home_token]
        return max([*held, *made, *(fence.token for fence in self.fences)], default=Token(0, 0))

    @property
    def is_asleep(self) -> bool:
        """A home, and nobody on it: what a start usually finds."""
        alone = self.container is None and self.job is None
        return self.home and alone and not any(each.is_running for each in self.strangers)

    @property
    def looks_torn(self) -> bool:
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


def sort_things(
    names: Names, *, containers: Iterable[Document], volumes: Iterable[Document]
) -> dict[UUID, Things]:
    """By workspace. Whatever lacks the name, the workspace or the role is not ours and left out."""
    found: dict[UUID, Things] = {}
    for listed in containers:
        _sort_container(names, listed, found)
    for volume in volumes:
        _sort_volume(names, volume, found)
    return found


def find_strangers(names: Names, workspace_id: UUID, containers: Iterable[Document]) -> list[Stranger]:
    """Of the containers that mount this home, those that are neither its workspace nor its storage job."""
    ours = {
        Role.WORKSPACE: names.container(workspace_id),
        Role.STORAGE_JOB: names.job(workspace_id),
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


def observation(found: Mapping[UUID, Things]) -> Observation:
    """Fences are not part of a workspace: one of which only a token is left has nothing."""
    seen = {workspace_id: things.sighting for workspace_id, things in found.items()}
    return Observation(sightings={key: value for key, value in seen.items() if value != Sighting()})


def address_of(networks: Mapping[str, Document] | None, labels: Mapping[str, str]) -> Address | None:
    """Its address on the one network it is in."""
    hosts = [each.get("IPAddress") for each in (networks or {}).values()]
    host = next((each for each in hosts if each), None)
    return None if host is None else Address(host, port_of(labels))


def port_of(labels: Mapping[str, str]) -> int:
    """Where the image listens: its label ``codehub.port``, or the default."""
    text = labels.get(PORT, "")
    return int(text) if text.isdigit() and 0 < int(text) < 65536 else DEFAULT_PORT


def _sort_container(names: Names, listed: Document, found: dict[UUID, Things]) -> None:
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
    if role is Role.WORKSPACE and is_named(listed, names.container(workspace_id)):
        found.setdefault(workspace_id, Things()).container = container
    elif role is Role.STORAGE_JOB and is_named(listed, names.job(workspace_id)):
        found.setdefault(workspace_id, Things()).job = container


def _sort_volume(names: Names, volume: Document, found: dict[UUID, Things]) -> None:
    labels = volume.get("Labels") or {}
    workspace_id, role = find_workspace(labels), find_role(labels)
    if workspace_id is None or role is None or not names.are_ours(labels, workspace_id, role):
        return
    name = str(volume["Name"])
    if role is Role.HOME and name == names.home(workspace_id):
        things = found.setdefault(workspace_id, Things())
        things.home, things.home_token = True, find_token(labels)
    elif role is Role.FENCE and (token := find_token(labels)) is not None:
        fence = Fence(name=name, token=token, created_at=str(volume.get("CreatedAt") or ""))
        found.setdefault(workspace_id, Things()).fences.append(fence)
