"""Run storage jobs as containers of CodeHub's image: archive or restore a home.

A job mounts the one volume (read-only when it archives), and is connected only to the network the archive store
needs: to none for a store that is a directory. Its name is the lock: there is never more than one per workspace.
A job whose CodeHub died continues; the next one with a token at least as high ends it first and, if it had got
so far, finds its committed archive.

The order goes in on standard input. The answer is read from the container's log rather than from an attached
stream: an engine that restarts breaks streams, and the log is still there afterwards.
"""

import asyncio
import json
from collections import deque
from typing import Any
from urllib.parse import unquote, urlsplit

from codehub.domain.errors import EffectError, FailureCode
from codehub.runtimes.base import FencingToken, ProgressCallback, StorageJob, StorageKind, StorageResult
from codehub.runtimes.docker import names as labels
from codehub.runtimes.docker.containers import ending_of
from codehub.runtimes.docker.engine import CallRefused, Conflict, DockerEngine, NotFound
from codehub.runtimes.docker.frames import STDOUT
from codehub.runtimes.docker.names import Names, ObjectRole
from codehub.runtimes.docker.order import LOGS, hardening, home_mount
from codehub.runtimes.docker.settings import JobSettings
from codehub.runtimes.job_protocol import find_message, find_progress, outcome

VOLUME = "/volume"
_CAPABILITIES = ["CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID"]
"""What tar needs to read and write files of any owner and to keep their owners and modes."""
_KEPT_LINES = 40


class Jobs:
    def __init__(self, engine: DockerEngine, names: Names, settings: JobSettings) -> None:
        self._engine = engine
        self._names = names
        self._settings = settings

    @property
    def image(self) -> str:
        return self._settings.image

    async def create(self, job: StorageJob, token: FencingToken) -> str:
        """Create the job's container, not started. The caller has freed its name."""
        try:
            return await self._engine.create_container(
                self._names.job(job.workspace_id), self._config(job, token)
            )
        except Conflict as error:
            raise EffectError(
                FailureCode.VOLUME_IN_USE, f"another storage job has begun meanwhile: {error}"
            ) from error
        except (CallRefused, NotFound) as error:
            raise _failed(str(error)) from error

    async def start(self, container_id: str, job: StorageJob) -> None:
        try:
            await self._engine.feed(container_id, self._order(job))
        except (CallRefused, NotFound, Conflict) as error:
            raise _failed(str(error)) from error

    async def follow(self, container_id: str, *, on_progress: ProgressCallback) -> StorageResult:
        """Read the job's messages until it has ended; its result."""
        while True:
            final, tail = await self._read(container_id, on_progress=on_progress)
            try:
                found = await self._engine.container(container_id)
            except NotFound:
                raise _failed("the storage job's container was removed") from None
            ending = ending_of(found)
            if ending is not None:
                break
            await asyncio.sleep(0.2)  # the engine went away and came back; the job runs on
        if final is None:  # the end of the log may have been written after it was read
            final, tail = await self._read(container_id, on_progress=on_progress, follow=False)
        if final is None and ending.out_of_memory:
            raise EffectError(FailureCode.OUT_OF_MEMORY, f"The storage job {ending.words}.", output=tail)
        return outcome(final, exit_code=ending.exit_code or 0, output=tail)

    async def _read(
        self, container_id: str, *, on_progress: ProgressCallback, follow: bool = True
    ) -> tuple[dict[str, Any] | None, list[str]]:
        """The final message, if there was one, and the last lines of everything else."""
        final: dict[str, Any] | None = None
        tail: deque[str] = deque(maxlen=_KEPT_LINES)
        rest = b""
        try:
            async for stream, piece in self._engine.output(container_id, follow=follow):
                if stream != STDOUT:
                    tail.extend(piece.decode(errors="replace").splitlines())
                    continue
                *lines, rest = (rest + piece).split(b"\n")
                for message in filter(None, map(find_message, lines)):
                    if (progress := find_progress(message)) is not None:
                        await on_progress(progress)
                    else:
                        final = message
        except (NotFound, CallRefused) as error:
            raise _failed(str(error)) from error
        return final, list(tail)

    def _config(self, job: StorageJob, token: FencingToken) -> dict[str, Any]:
        settings = self._settings
        archiving = job.kind is StorageKind.ARCHIVE
        mounts = [home_mount(self._names, job.workspace_id, target=VOLUME, read_only=archiving)]
        directory = _store_directory(settings.archive_url)
        if directory is not None:
            mounts.append(_store_mount(directory, settings.archive_source))
        return {
            "Image": settings.image,
            "Entrypoint": list(settings.command),
            "Cmd": [],
            "User": "0:0",
            "Env": [f"{name}={value}" for name, value in settings.env.items()],
            "Labels": {
                **self._names.labels(job.workspace_id, ObjectRole.STORAGE_JOB, token),
                labels.OP_ID: str(job.op_id),
            },
            "OpenStdin": True,
            "StdinOnce": True,
            "HostConfig": {
                **hardening(settings.limits),
                "CapAdd": _CAPABILITIES,
                "ReadonlyRootfs": True,
                "Tmpfs": {"/tmp": "size=64m"},
                "NetworkMode": "none" if directory is not None else settings.network,
                "Mounts": mounts,
                "LogConfig": LOGS,
            },
        }

    def _order(self, job: StorageJob) -> bytes:
        order = {
            "kind": job.kind.value,
            "workspace_id": str(job.workspace_id),
            "op_id": str(job.op_id),
            "installation_id": self._names.installation_id,
            "archive_key": job.archive_key,
            "archive_sha256": job.archive_sha256,
            "archive_source_id": str(job.archive_source_id) if job.archive_source_id else None,
            "format_version": job.format_version,
            "archive_url": self._settings.archive_url,
            "volume_path": VOLUME,
            "swap": "inside",  # a mount point cannot be renamed
            "storage_options": dict(self._settings.storage_options),
        }
        return json.dumps(order).encode() + b"\n"


def in_use(job_token: FencingToken) -> EffectError:
    return EffectError(
        FailureCode.VOLUME_IN_USE,
        "a storage job is using the volume",
        job_token=[job_token.op_seq, job_token.epoch],
    )


def _store_directory(archive_url: str) -> str | None:
    parts = urlsplit(archive_url)
    return unquote(parts.path) if parts.scheme == "file" else None


def _store_mount(directory: str, source: str | None) -> dict[str, Any]:
    source = source or directory
    # Docker creates a missing volume but refuses a missing directory: an unmounted disk stays an error.
    kind = "bind" if source.startswith("/") else "volume"
    return {"Type": kind, "Source": source, "Target": directory}


def _failed(why: str) -> EffectError:
    return EffectError(FailureCode.STORAGE_JOB_FAILED, why)
