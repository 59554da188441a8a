"""Open archives to look into, whatever their format."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

import zstandard

from codehub.archives.contents import ArchiveContents
from codehub.archives.generation_contents import GenerationContents
from codehub.archives.index_cache import IndexCache
from codehub.archives.keys import ArchivePath
from codehub.archives.meta import ArchiveMeta
from codehub.archives.store import ArchiveStore
from codehub.archives.tar_contents import TarContents
from codehub.kit.threads import in_thread

_PIECE_BYTES = 1024 * 1024


class ContentsReader:
    """Opens archives of every format that this CodeHub reads. ``index_directory`` may be emptied at any time."""

    def __init__(self, store: ArchiveStore, *, index_directory: Path) -> None:
        self._store = store
        self._indexes = IndexCache(index_directory)

    def open(self, path: ArchivePath, meta: ArchiveMeta) -> ArchiveContents:
        """The archive of this meta. Nothing is read yet."""
        if path.format_version == 2:
            return GenerationContents(self._store, path, meta)
        return TarContents(self._store, path, meta, self._indexes)

    async def stream_tar_zst(self, path: ArchivePath, meta: ArchiveMeta) -> AsyncGenerator[bytes, None]:
        """Yield a home as one ``tar.zst``: as it is stored in format 1, made while it is read in format 2."""
        if path.format_version == 1:
            async with aclosing(self._store.stream(path, size=meta.bytes)) as stored:
                async for piece in stored:
                    yield piece
            return
        chunker = zstandard.ZstdCompressor(level=3).chunker(chunk_size=_PIECE_BYTES)
        async with aclosing(self.open(path, meta).pack(b"")) as pieces:
            async for piece in pieces:
                for made in await in_thread(lambda piece=piece: list(chunker.compress(piece))):  # type: ignore[misc]
                    yield made
        for made in chunker.finish():  # type: ignore[no-untyped-call]
            yield made

    async def close(self) -> None:
        """End what is being read."""
        await self._indexes.close()
