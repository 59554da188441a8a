"""Keep a volume with ``inside`` on the engine, which workspaces mount read-only at ``/.codehub``.

A volume, because the engine may be another machine: nothing of this one can be mounted there. It is filled through a
container that is created and never started, so it takes no image of its own and runs nothing.

Docker cannot rename a volume, so a copy gets a name of its own, and once it is complete an empty volume, the *record*,
names it. Creating a volume of a given name is atomic: of several replicas that fill a copy at once, one writes the
record, and the others use its copy and remove theirs. A process that dies in the middle leaves a copy without a record,
which nobody mounts and which ``sweep`` removes.

    codehub-{…}-inside-{digest}          record: the label ``codehub.copy`` names the copy
    codehub-{…}-inside-{digest}-{…}      copy

A version that is not ours is removed when no container mounts it. It may be another replica's, in the middle of an
upgrade, and about to be mounted: so ``is_there`` is asked between a container's creation, which holds the volume, and
its start.
"""

import asyncio
import hashlib
import io
import tarfile
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import structlog

from codehub.runtimes.docker import names as labels
from codehub.runtimes.docker.engine import CallRefused, Conflict, DockerEngine, Document, NotFound
from codehub.runtimes.docker.names import Names, ObjectRole
from codehub.runtimes.inside import DIRECTORY, find_inside

log = structlog.get_logger(__name__)

KEPT = timedelta(minutes=5)
"""Each call of a replica that fills a copy ends within a minute."""

_ANSWERS = (NotFound, Conflict, CallRefused)


class InsideVolume:
    def __init__(self, engine: DockerEngine, names: Names, *, kept: timedelta = KEPT) -> None:
        """``kept``: what is younger may be in the making, and is not swept."""
        self._engine = engine
        self._kept = kept
        self._names = names
        self._program: Program | None = None
        self._copy: str | None = None
        self._looking = asyncio.Lock()

    async def get(self, image_ref: str) -> str | None:
        """The name of a complete copy; filled if there is none, through a container of an image the engine has.

        None: ``inside`` was not built for this engine's kind of machine, or the engine refuses. A workspace then
        starts without it.
        """
        if self._copy is not None:
            return self._copy
        async with self._looking:
            if self._copy is None:
                try:
                    self._copy = await self._find_or_fill(image_ref)
                except _ANSWERS as error:
                    log.warning("inside could not be put on the engine", error=str(error))
            return self._copy

    def forget(self) -> None:
        """Look again at the next start: the copy is gone."""
        self._copy = None

    async def is_there(self, copy: str) -> bool:
        """Whether a volume is a copy of ours. False also for one that Docker made because it was missing."""
        try:
            found = await self._engine.volume(copy)
        except NotFound:
            return False
        return self._has_role(found, ObjectRole.INSIDE)

    async def sweep(self) -> None:
        """Remove versions that no container mounts, and what was left in the middle. Never the current one."""
        now = await self._engine.time()
        for each in await self._engine.containers(self._filter(ObjectRole.INSIDE_FILLING)):
            if now - datetime.fromtimestamp(each["Created"], UTC) > self._kept:
                await self._remove_container(str(each["Id"]))
        records = await self._engine.volumes(self._filter(ObjectRole.INSIDE_RECORD))
        copies = await self._engine.volumes(self._filter(ObjectRole.INSIDE))
        kept = set()
        for record in records:
            copy = _copy_of(record)
            if await self._is_wanted(record, copy, now=now):
                kept.add(copy)
            else:  # the record goes first: a crash here leaves a copy without one
                await self._remove_volume(str(record["Name"]))
        for each in copies:
            if each["Name"] not in kept and self._is_old(each, now=now):
                await self._remove_volume(str(each["Name"]))  # refused while it is mounted

    async def _is_wanted(self, record: Document, copy: str, *, now: datetime) -> bool:
        if not self._is_old(record, now=now) or copy == self._copy:
            return True
        if self._program is None or record["Name"] == self._names.inside(self._program.digest):
            return True  # not known yet which version is ours, or it is ours
        return bool(await self._engine.containers({"volume": [copy]}))

    async def _find_or_fill(self, image_ref: str) -> str | None:
        if self._program is None:
            machine = str((await self._engine.version()).get("Arch", ""))
            self._program = await asyncio.to_thread(_read_program, find_inside(machine))
        if self._program is None:
            return None
        record = self._names.inside(self._program.digest)
        with suppress(NotFound):
            copy = _copy_of(await self._engine.volume(record))
            if copy and await self.is_there(copy):
                return copy
            await self._engine.remove_volume(record)  # it names a copy that somebody removed
        return await self._fill(record, self._program, image_ref)

    async def _fill(self, record: str, program: "Program", image_ref: str) -> str:
        copy = f"{record}-{uuid4().hex[:8]}"
        await self._engine.create_volume(copy, labels=self._labels(ObjectRole.INSIDE), driver="local")
        config = _filling_config(image_ref, copy, self._labels(ObjectRole.INSIDE_FILLING))
        container_id = await self._engine.create_container(f"{copy}-filling", config)
        try:
            await self._engine.put_archive(container_id, DIRECTORY, program.tar)
        finally:
            await self._remove_container(container_id)
        about = {**self._labels(ObjectRole.INSIDE_RECORD), labels.COPY: copy}
        winner = _copy_of(await self._engine.create_volume(record, labels=about, driver="local"))
        if winner != copy:
            await self._remove_volume(copy)
        log.info("inside was put on the engine", volume=winner)
        return winner

    def _labels(self, role: ObjectRole) -> dict[str, str]:
        return {labels.INSTALLATION: self._names.installation_id, labels.ROLE: role.value}

    def _filter(self, role: ObjectRole) -> dict[str, list[str]]:
        return {"label": [f"{name}={value}" for name, value in self._labels(role).items()]}

    def _has_role(self, volume: Document, role: ObjectRole) -> bool:
        found = volume.get("Labels") or {}
        return self._labels(role).items() <= found.items()

    def _is_old(self, volume: Document, *, now: datetime) -> bool:
        try:
            return now - datetime.fromisoformat(str(volume.get("CreatedAt"))) > self._kept
        except (ValueError, TypeError):
            return False

    async def _remove_volume(self, name: str) -> None:
        with suppress(*_ANSWERS):
            await self._engine.remove_volume(name)

    async def _remove_container(self, container_id: str) -> None:
        with suppress(*_ANSWERS):
            await self._engine.remove_container(container_id)


class Program:
    """``inside`` as a tar for the engine, and its digest."""

    def __init__(self, content: bytes) -> None:
        self.digest = hashlib.sha256(content).hexdigest()
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as tar:
            member = tarfile.TarInfo("inside")
            member.size, member.mode = len(content), 0o555
            tar.addfile(member, io.BytesIO(content))
        self.tar = buffer.getvalue()


def inside_mount(copy: str) -> dict[str, Any]:
    return {
        "Type": "volume",
        "Source": copy,
        "Target": DIRECTORY,
        "ReadOnly": True,
        # What the image has at this place is not copied into the volume.
        "VolumeOptions": {"NoCopy": True, "Labels": {labels.ACCIDENT: "true"}},
    }


def _filling_config(image_ref: str, copy: str, wanted: dict[str, str]) -> dict[str, Any]:
    return {
        "Image": image_ref,
        "Entrypoint": [f"{DIRECTORY}/inside"],  # never started
        "Labels": wanted,
        "HostConfig": {"NetworkMode": "none", "Mounts": [{**inside_mount(copy), "ReadOnly": False}]},
    }


def _read_program(directory: Path | None) -> Program | None:
    return None if directory is None else Program((directory / "inside").read_bytes())


def _copy_of(record: Document) -> str:
    return str((record.get("Labels") or {}).get(labels.COPY, ""))
