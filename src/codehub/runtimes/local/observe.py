"""Observe what exists of each workspace, in three directory scans.

Reads only, without locks: the result may be out of date, and the next observation corrects it. It must never
report a false "gone": if the listing itself fails, or the disk is not the right one, the observation fails as a
whole; if one item cannot be read, it is named as unreadable.
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
from codehub.runtimes.local.processes import ProcessIdentity, is_alive
from codehub.runtimes.local.records import UnreadableRecord, find_record
from codehub.runtimes.local.volumes import has_volume

_AT_REST = Sighting(volume=True)


@dataclass(frozen=True)
class LocalObservation:
    """An observation, and the process of each running workspace."""

    observation: Observation
    running: Mapping[UUID, ProcessIdentity]


@dataclass(frozen=True)
class _Listing:
    volumes: set[UUID]
    processes: set[UUID]
    jobs: set[UUID]
    unreadable: set[UUID]


def observe_files(layout: Layout, ids: Collection[UUID] | None) -> LocalObservation:
    layout.check()
    try:
        listing = _list_all(layout) if ids is None else _list_some(layout, ids)
        layout.check()  # a disk that goes away meanwhile must not look like deleted homes
    except OSError as error:
        raise unreadable(layout.data_dir, error) from error
    # Most homes are at rest: sharing one sighting keeps the observation cheap.
    sightings = dict.fromkeys(listing.volumes, _AT_REST)
    running: dict[UUID, ProcessIdentity] = {}
    unreadable_ids = set(listing.unreadable)
    for workspace_id in listing.processes | listing.jobs:
        if workspace_id in unreadable_ids:
            continue
        try:
            sighting, identity = _observe_one(layout, workspace_id, listing)
        except (UnreadableRecord, OSError, ValueError):
            unreadable_ids.add(workspace_id)
            sightings.pop(workspace_id, None)
            continue
        if sighting != Sighting():
            sightings[workspace_id] = sighting
        if identity is not None:
            running[workspace_id] = identity
    return LocalObservation(Observation(sightings=sightings, unreadable=frozenset(unreadable_ids)), running)


def _observe_one(
    layout: Layout, workspace_id: UUID, listing: _Listing
) -> tuple[Sighting, ProcessIdentity | None]:
    container = ContainerState.NONE
    address: Endpoint | None = None
    running: ProcessIdentity | None = None
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


# Processes are listed before volumes, and checked to be alive after that. A process found both before and after
# had its volume all the time; in the other order a provision and a start in between would be reported as a
# container without a volume, which is an error only a person can lift.


def _list_all(layout: Layout) -> _Listing:
    processes, jobs = set(_uuids(layout.processes)), set(_uuids(layout.jobs))
    volumes: set[UUID] = set()
    not_directories: set[UUID] = set()
    with os.scandir(layout.volumes) as entries:
        for entry in entries:
            if (workspace_id := workspace_of(entry.name)) is not None:
                (volumes if entry.is_dir(follow_symlinks=False) else not_directories).add(workspace_id)
    return _Listing(volumes=volumes, processes=processes, jobs=jobs, unreadable=not_directories)


def _list_some(layout: Layout, ids: Collection[UUID]) -> _Listing:
    processes = {workspace_id for workspace_id in ids if os.path.lexists(layout.process(workspace_id))}
    volumes: set[UUID] = set()
    not_directories: set[UUID] = set()
    for workspace_id in ids:
        try:
            if has_volume(layout, workspace_id):
                volumes.add(workspace_id)
            elif os.path.lexists(layout.volume(workspace_id)):
                not_directories.add(workspace_id)
        except EffectError:
            not_directories.add(workspace_id)
    return _Listing(volumes=volumes, processes=processes, jobs=set(ids), unreadable=not_directories)


def _uuids(directory: Path) -> Iterable[UUID]:
    return (found for name in os.listdir(directory) if (found := find_uuid(name)) is not None)
