"""Keep the indexes of archives of format 1 in a directory, made when first needed.

An index is made by ``indexer`` from the object's bytes while their checksum is computed, and gets its name only when
both are good: a process that dies here leaves a file that nobody reads, removed at the next start. The oldest are
removed when all together are too large. Losing any of them costs the time to read its archive again.
"""

import asyncio
import hashlib
import os
import sys
import tempfile
import time
from contextlib import aclosing, suppress
from pathlib import Path

import structlog

from codehub.archives.contents import ArchiveUnreadable
from codehub.archives.keys import ArchivePath
from codehub.archives.meta import ArchiveMeta
from codehub.archives.store import ArchiveStore
from codehub.archives.tar_index import TarIndex
from codehub.domain.errors import CodeHubError
from codehub.kit.single_flight import SingleFlight
from codehub.kit.threads import in_thread

log = structlog.get_logger(__name__)

KEPT_BYTES = 1024 * 1024 * 1024
AT_ONCE = 2
WAIT_SECONDS = 20.0
"""How long a request waits for an index; one that takes longer is made to its end without it."""
BUILD_SECONDS = 1800.0
_SUFFIX = ".index"
_UNFINISHED = ".making"


class StillReading(CodeHubError):
    """The archive is read for the first time, which takes longer than a request may."""

    code = "archive_indexing"


class IndexCache:
    """The indexes in one directory, which replicas on one machine may share."""

    def __init__(self, directory: Path, *, kept_bytes: int = KEPT_BYTES) -> None:
        self._directory = directory
        self._prepared: Path | None = None
        self._kept_bytes = kept_bytes
        self._making: SingleFlight[str, Path] = SingleFlight()
        self._slots = asyncio.Semaphore(AT_ONCE)

    async def open(self, store: ArchiveStore, path: ArchivePath, meta: ArchiveMeta) -> TarIndex:
        """Open the index of an archive; made first if need be. Raises ``ArchiveUnreadable`` or ``StillReading``."""
        directory = await in_thread(self._prepare)
        # By its key too: only the archive itself opens the index that was made of it.
        name = hashlib.sha256(f"{path.key} {meta.sha256}".encode()).hexdigest()
        file = directory / f"{name}{_SUFFIX}"
        if not await in_thread(_use, file):
            try:
                async with asyncio.timeout(WAIT_SECONDS):
                    await self._making.run(name, lambda: self._make(file, store, path, meta))
            except TimeoutError:
                raise StillReading(
                    "This archive is being read for the first time. Try again in a moment."
                ) from None
        return await in_thread(TarIndex, file)

    async def close(self) -> None:
        await self._making.close()

    def _prepare(self) -> Path:
        """Make the directory; the first time also remove what a killed process left in it."""
        if self._prepared is not None and self._prepared.is_dir():
            return self._prepared
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._prepared = self._directory
        except OSError:  # a replica whose data directory is read-only has a temporary one
            self._prepared = Path(tempfile.mkdtemp(prefix="codehub-archive-indexes-"))
        for left in self._prepared.glob(f"*{_UNFINISHED}"):
            with suppress(FileNotFoundError):
                if time.time() - left.stat().st_mtime > BUILD_SECONDS:
                    left.unlink()
        return self._prepared

    async def _make(self, file: Path, store: ArchiveStore, path: ArchivePath, meta: ArchiveMeta) -> Path:
        making = file.with_name(f"{file.name}.{os.getpid()}{_UNFINISHED}")
        async with self._slots, asyncio.timeout(BUILD_SECONDS):
            try:
                await _build(making, store, path, meta)
                await in_thread(making.rename, file)
            finally:
                with suppress(OSError):
                    making.unlink()
        await in_thread(self._remove_oldest)
        return file

    def _remove_oldest(self) -> None:
        found = [(each.stat(), each) for each in self._prepare().glob(f"*{_SUFFIX}")]
        newest_first = sorted(found, key=lambda each: each[0].st_mtime, reverse=True)
        total = 0
        for number, (status, file) in enumerate(newest_first):
            total += status.st_size
            if number and total > self._kept_bytes:
                file.unlink(missing_ok=True)  # who has it open goes on reading it


def _use(file: Path) -> bool:
    """Whether it exists; its time says when it was last used."""
    try:
        os.utime(file)
    except FileNotFoundError:
        return False
    return True


async def _build(file: Path, store: ArchiveStore, path: ArchivePath, meta: ArchiveMeta) -> None:
    """Send the object to ``indexer`` and compare its checksum. Killed when this is cancelled."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "codehub.archives.indexer", str(file), str(meta.uncompressed_bytes)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={"PATH": os.environ.get("PATH", os.defpath)},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    digest = hashlib.sha256()
    try:
        async with aclosing(store.stream(path, size=meta.bytes)) as pieces:
            async for piece in pieces:
                await in_thread(digest.update, piece)
                with suppress(BrokenPipeError, ConnectionResetError):  # it refused; its exit says why
                    process.stdin.write(piece)
                    await process.stdin.drain()
        process.stdin.close()
        reason = (await process.stdout.read(2000)).decode(errors="replace").strip()
        code = await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if digest.hexdigest() != meta.sha256:
        raise ArchiveUnreadable("The archive is damaged: its checksum does not match.")
    if code != 0:
        log.warning("an archive was not indexed", archive_key=path.key, reason=reason, exit_code=code)
        raise ArchiveUnreadable(f"The archive was refused: {reason or 'it takes too long to look into'}.")
