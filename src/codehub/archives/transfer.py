"""Transfer the bytes of one object, both ways, in constant memory.

Download: ranged requests, a few ahead of the reader. Each is small, has its own timeout and is retried by
itself, where one long download would have to start over. Upload: a multipart upload by obstore's writer, or a
file in a directory store.
"""

import asyncio
import os
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import AbstractContextManager, aclosing, nullcontext, suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

import obstore
from obstore.exceptions import GenericError
from obstore.store import ObjectStore

from codehub.archives.directory import DirectoryReader, DirectoryWriter
from codehub.archives.faults import translated
from codehub.archives.read_ahead import read_ahead
from codehub.domain.errors import EffectError
from codehub.kit.threads import in_thread

RANGE_BYTES = 4 * 1024 * 1024
RANGES_AHEAD = 3
PART_BYTES = 8 * 1024 * 1024
PARTS_AT_ONCE = 4
_MAX_PARTS = 9_000  # S3 allows 10 000; the estimate may be a little too low

_NO_RANGES = "non-partial response"


class ObjectWriter(Protocol):
    """Writes an object: leaving normally completes it, an exception removes it."""

    async def __aenter__(self) -> Self: ...
    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...
    async def write(self, data: bytes) -> None: ...


def open_writer(
    backend: ObjectStore, key: str, *, directory: Path | None, expected_bytes: int, endpoint: str
) -> ObjectWriter:
    """Open a writer for a new object: a file, or a multipart upload."""
    if directory is not None:
        return _FileWriter(directory, key, endpoint=endpoint)
    return _MultipartWriter(backend, key, part_bytes=part_size_for(expected_bytes), endpoint=endpoint)


def part_size_for(expected_bytes: int) -> int:
    """Return a part size so that 10 000 parts hold the object, 8 MiB or more.

    Small, because several are held in memory.
    """
    return max(PART_BYTES, -(-expected_bytes // _MAX_PARTS))


async def read_file(directory: Path, key: str, *, size: int) -> AsyncGenerator[bytes, None]:
    """Yield an object of a directory store, one piece ahead of the reader."""
    reader = await in_thread(partial(DirectoryReader, directory, key, size=size))
    try:
        # A read of a file returns by itself: nothing to unblock.
        async with aclosing(read_ahead(reader.next_piece, unblock=lambda: None)) as pieces:
            async for piece in pieces:
                yield piece
    finally:
        reader.close()


async def read_object(backend: ObjectStore, key: str, *, size: int) -> AsyncGenerator[bytes, None]:
    """Yield bytes 0 … ``size`` of an object, in order.

    Raises OSError if the store returns fewer.
    """
    first = min(RANGE_BYTES, size)
    try:
        head = await _read_range(backend, key, start=0, length=first)
    except GenericError as error:
        if _NO_RANGES not in str(error):
            raise
        pieces = _read_whole(backend, key, size=size)
    else:
        yield head
        pieces = _read_ranges(backend, key, start=first, size=size)
    async with aclosing(pieces):
        async for piece in pieces:
            yield piece


async def read_range(
    backend: ObjectStore, key: str, *, start: int, length: int, directory: Path | None
) -> bytes:
    """Read ``length`` bytes at ``start``. Raises OSError if the store returns fewer."""
    if directory is not None:
        return await in_thread(partial(_pread, directory / key, start=start, length=length))
    try:
        return await _read_range(backend, key, start=start, length=length)
    except GenericError as error:
        if _NO_RANGES not in str(error):
            raise
    # A server without ranges (rclone): one download, of which the part is kept.
    kept, at = bytearray(), 0
    async for piece in (await obstore.get_async(backend, key)).stream(min_chunk_size=RANGE_BYTES):
        kept += bytes(piece)[max(0, start - at) : max(0, start + length - at)]
        at += len(piece)
    if len(kept) != length:
        raise OSError(f"asked for {length} bytes at {start}, got {len(kept)}")
    return bytes(kept)


def _pread(path: Path, *, start: int, length: int) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        piece = os.pread(descriptor, length, start)
    finally:
        os.close(descriptor)
    if len(piece) != length:
        raise OSError(f"asked for {length} bytes at {start}, got {len(piece)}")
    return piece


async def _read_ranges(
    backend: ObjectStore, key: str, *, start: int, size: int
) -> AsyncGenerator[bytes, None]:
    ahead: deque[asyncio.Task[bytes]] = deque()
    starts = iter(range(start, size, RANGE_BYTES))
    try:
        while True:
            while len(ahead) < RANGES_AHEAD and (at := next(starts, None)) is not None:
                length = min(RANGE_BYTES, size - at)
                ahead.append(asyncio.create_task(_read_range(backend, key, start=at, length=length)))
            if not ahead:
                return
            yield await ahead[0]
            ahead.popleft()
    finally:
        for task in ahead:
            task.cancel()
        await asyncio.gather(*ahead, return_exceptions=True)


async def _read_whole(backend: ObjectStore, key: str, *, size: int) -> AsyncGenerator[bytes, None]:
    """Yield an object from one long download.

    For servers that answer ranges in a way obstore rejects (rclone's 200).
    """
    result = await obstore.get_async(backend, key)
    read = 0
    async for piece in result.stream(min_chunk_size=RANGE_BYTES):
        read += len(piece)
        yield bytes(piece)
    if read != size:
        raise OSError(f"asked for {size} bytes, got {read}")


async def _read_range(backend: ObjectStore, key: str, *, start: int, length: int) -> bytes:
    piece = bytes(await obstore.get_range_async(backend, key, start=start, length=length))
    if len(piece) != length:
        raise OSError(f"asked for {length} bytes at {start}, got {len(piece)}")
    return piece


def _secondary_to(error: BaseException | None) -> AbstractContextManager[None]:
    """Suppress failures of a clean-up after ``error``, which is raised instead."""
    return suppress(EffectError) if error is not None else nullcontext()


class _MultipartWriter:
    def __init__(self, backend: ObjectStore, key: str, *, part_bytes: int, endpoint: str) -> None:
        self._endpoint = endpoint
        self._writer = obstore.open_writer_async(
            backend, key, buffer_size=part_bytes, max_concurrency=PARTS_AT_ONCE
        )

    async def __aenter__(self) -> Self:
        await self._writer.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # With an exception obstore aborts the multipart upload. If the process is killed instead, the
        # parts stay until the bucket's lifecycle rule for incomplete uploads removes them.
        with _secondary_to(error), self._translated("finishing the upload"):
            await self._writer.__aexit__(kind, error, trace)

    async def write(self, data: bytes) -> None:
        with self._translated("uploading"):
            await self._writer.write(data)

    def _translated(self, doing: str) -> AbstractContextManager[None]:
        return translated(doing, endpoint=self._endpoint)


class _FileWriter:
    def __init__(self, directory: Path, key: str, *, endpoint: str) -> None:
        self._directory = directory
        self._key = key
        self._endpoint = endpoint
        self._writer: DirectoryWriter | None = None

    async def __aenter__(self) -> Self:
        with self._translated("creating the file"):
            self._writer = await in_thread(DirectoryWriter, self._directory, self._key)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._writer is not None
        finish = self._writer.close if kind is None else self._writer.abort
        with _secondary_to(error), self._translated("finishing the file"):
            await in_thread(finish)

    async def write(self, data: bytes) -> None:
        assert self._writer is not None
        with self._translated("writing"):
            await in_thread(self._writer.write, data)

    def _translated(self, doing: str) -> AbstractContextManager[None]:
        return translated(doing, endpoint=self._endpoint)
