"""Looking: what exists of each workspace, in three directory scans.

Reads only, without locks: an answer is a snapshot of a moving thing, and the next look corrects it. What
must not happen is a false "gone": if the listing itself fails, or the disk is not the right one, the
look fails as a whole; if one item cannot be read, it is named as unreadable.
"""

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from codehub.domain.errors import EffectError
from codehub.domain.states import ContainerState
from codehub.runtimes.base import Endpoint, Observation, Sighting
from codehub.runtimes.local import logs
from codehub.runtimes.local.layout import Layout, find_uuid, unreadable, workspace_of
from codehub.runtimes.local.processes import Identity, is_alive
from codehub.runtimes.local.records import UnreadableRecord, find_record
from codehub.runtimes.local.volumes import has_volume

_AT_REST = Sighting(volume=True)


@dataclass(frozen=True)
class Look:
    """An observation, and which process each running workspace is."""

    observation: Observation
    running: Mapping[UUID, Identity]


@dataclass(frozen=True)
class _Listing:
    volumes: set[UUID]
    processes: set[UUID]
    jobs: set[UUID]
    unreadable: set[UUID]


def look(layout: Layout, ids: Collection[UUID] | None) -> Look:
    layout.check()
    try:
        listing = _list_all(layout) if ids is None else _list_some(layout, ids)
        layout.check()  # a disk that went away in the middle must not look like deleted homes
    except OSError as error:
        raise unreadable(layout.data_dir, error) from error
    # Most homes only lie there. A look costs by them, so they share one sighting.
    sightings = dict.fromkeys(listing.volumes, _AT_REST)
    running: dict[UUID, Identity] = {}
    dark = set(listing.unreadable)
    for workspace_id in listing.processes | listing.jobs:
        if workspace_id in dark:
            continue
        try:
            sighting, identity = _sight(layout, workspace_id, listing)
        except (UnreadableRecord, OSError, ValueError):
            dark.add(workspace_id)
            sightings.pop(workspace_id, None)
            continue
        if sighting != Sighting():
            sightings[workspace_id] = sighting
        if identity is not None:
            running[workspace_id] = identity
    return Look(Observation(sightings=sightings, unreadable=frozenset(dark)), running)


def _sight(layout: Layout, workspace_id: UUID, listing: _Listing) -> tuple[Sighting, Identity | None]:
    container = ContainerState.NONE
    address: Endpoint | None = None
    running: Identity | None = None
    if workspace_id in listing.processes and (record := find_record(layout.process(workspace_id))):
        if is_alive(record.identity):
            container, address = ContainerState.RUNNING, record.endpoint
            running = record.identity
            logs.rotate(layout.output(workspace_id))
        else:
            container = ContainerState.DEAD
    job = find_record(layout.job(workspace_id)) if workspace_id in listing.jobs else None
    sighting = Sighting(
        container=container,
        volume=workspace_id in listing.volumes,
        address=address,
        storage_job=job is not None and is_alive(job.identity),
    )
    return sighting, running


# Processes are listed before volumes and asked whether they live after that. A process seen both before
# and after had its volume all the time; the other order could catch a provision and a start in between
# and report a container without a volume, which is an error only a person can lift.


def _list_all(layout: Layout) -> _Listing:
    processes, jobs = set(_uuids(layout.processes)), set(_uuids(layout.jobs))
    volumes: set[UUID] = set()
    odd: set[UUID] = set()
    with os.scandir(layout.volumes) as entries:
        for entry in entries:
            if (workspace_id := workspace_of(entry.name)) is not None:
                (volumes if entry.is_dir(follow_symlinks=False) else odd).add(workspace_id)
    return _Listing(volumes=volumes, processes=processes, jobs=jobs, unreadable=odd)


def _list_some(layout: Layout, ids: Collection[UUID]) -> _Listing:
    processes = {workspace_id for workspace_id in ids if os.path.lexists(layout.process(workspace_id))}
    volumes: set[UUID] = set()
    odd: set[UUID] = set()
    for workspace_id in ids:
        try:
            if has_volume(layout, workspace_id):
                volumes.add(workspace_id)
            elif os.path.lexists(layout.volume(workspace_id)):
                odd.add(workspace_id)
        except EffectError:
            odd.add(workspace_id)
    return _Listing(volumes=volumes, processes=processes, jobs=set(ids), unreadable=odd)


def _uuids(directory: Path) -> Iterable[UUID]:
    return (found for name in os.listdir(directory) if (found := find_uuid(name)) is not None)
