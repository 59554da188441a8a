"""Read the tar stream of a generation in format 2 from its packs, forward, in constant memory.

``plan_reads`` decides without any data which ranges of which packs are read when, and which chunks stay in memory;
``stream_chunks`` follows the plan a few steps ahead of its reader. Neighbours in a pack are read with one request:
chunks lie in the order of the stream, so the first generation of a home is read from front to end. Later ones
interleave slices of older packs, each of which is read forward too.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Iterable, Iterator
from dataclasses import dataclass
from uuid import UUID

from codehub.archives.keys import PackPath
from codehub.archives.manifest import Tail
from codehub.archives.packs import DamagedChunk, decompress
from codehub.archives.store import ArchiveStore
from codehub.domain.errors import EffectError, FailureCode
from codehub.kit.threads import in_thread

READ_BYTES = 4 * 1024 * 1024
KEPT_BYTES = 40 * 1024 * 1024
"""Content of chunks kept in memory: some more than a chunk of each of 30 generations."""

_STEPS_AHEAD = 2

Slice = tuple[int, int, int]  # chunk, offset, length


@dataclass(frozen=True)
class Step:
    """Read ``fetch`` (neighbours in one pack), forget ``drop``, then hand out ``slices``."""

    fetch: tuple[int, ...]
    drop: tuple[int, ...]
    slices: tuple[Slice, ...]


def plan_reads(tail: Tail, slices: Iterable[Slice]) -> Iterator[Step]:
    """Yield the steps that hand out ``slices`` in order."""
    kept: OrderedDict[int, int] = OrderedDict()  # chunk → length of its content, least recently used first
    kept_bytes = 0
    fetch: tuple[int, ...] = ()
    drop: list[int] = []
    ready: list[Slice] = []
    for each in slices:
        chunk = each[0]
        if chunk not in kept:
            if ready or fetch:
                yield Step(fetch, tuple(drop), tuple(ready))
                drop, ready = [], []
            fetch = _neighbours(tail, chunk, kept)
            for number in fetch:
                kept[number] = tail.chunk_contents[number]
                kept_bytes += kept[number]
            while kept_bytes > KEPT_BYTES and (oldest := next(iter(kept))) not in fetch:
                kept_bytes -= kept.pop(oldest)
                drop.append(oldest)
        kept.move_to_end(chunk)
        ready.append(each)
    if ready:
        yield Step(fetch, tuple(drop), tuple(ready))


def _neighbours(tail: Tail, chunk: int, kept: "OrderedDict[int, int]") -> tuple[int, ...]:
    """Return ``chunk`` and those right behind it in its pack.

    A manifest names only chunks it needs, in the order of their packs.
    """
    found = [chunk]
    length = tail.chunk_lengths[chunk]
    end = tail.chunk_offsets[chunk] + length
    following = chunk + 1
    while (
        following < len(tail.chunk_packs)
        and tail.chunk_packs[following] == tail.chunk_packs[chunk]
        and tail.chunk_offsets[following] == end
        and following not in kept
        and length + tail.chunk_lengths[following] <= READ_BYTES
    ):
        found.append(following)
        length += tail.chunk_lengths[following]
        end += tail.chunk_lengths[following]
        following += 1
    return tuple(found)


async def stream_chunks(
    store: ArchiveStore, workspace_id: UUID, tail: Tail, slices: Iterable[Slice], *, key: str
) -> AsyncGenerator[bytes, None]:
    """Yield the content of ``slices``, every chunk checked against its SHA-256.

    Raises ``CHECKSUM_MISMATCH`` for a damaged chunk, and what the store raises.
    """
    steps = plan_reads(tail, slices)
    ahead: deque[tuple[Step, asyncio.Task[dict[int, bytes]]]] = deque()
    kept: dict[int, bytes] = {}
    try:
        while True:
            while len(ahead) < _STEPS_AHEAD and (step := next(steps, None)) is not None:
                read = read_chunks(store, workspace_id, tail, step.fetch, key=key)
                ahead.append((step, asyncio.create_task(read)))
            if not ahead:
                return
            step, reading = ahead[0]
            kept |= await reading
            ahead.popleft()
            for number in step.drop:
                kept.pop(number, None)
            for chunk, offset, length in step.slices:
                content = kept[chunk]
                yield content if length == len(content) else content[offset : offset + length]
    finally:
        for _, task in ahead:
            task.cancel()
        await asyncio.gather(*(task for _, task in ahead), return_exceptions=True)


async def read_chunks(
    store: ArchiveStore, workspace_id: UUID, tail: Tail, numbers: tuple[int, ...], *, key: str
) -> dict[int, bytes]:
    """Read neighbours in one pack with one request; return their contents. Raises ``CHECKSUM_MISMATCH``."""
    chunks = [tail.chunk(number) for number in numbers]
    pack = tail.packs[chunks[0].pack]
    start = chunks[0].offset
    length = sum(chunk.length for chunk in chunks)
    try:
        data = await store.read_range(PackPath(workspace_id, pack.name), start, length)
    except EffectError:
        # A shorter pack answers a range behind its end with an error: damaged, and not away.
        stored = await store.size_of(PackPath(workspace_id, pack.name))
        if stored == pack.size:
            raise
        raise _damaged(key, pack.name, f"it has {stored} bytes instead of {pack.size}") from None

    def unpack() -> dict[int, bytes]:
        view, found = memoryview(data), {}
        for number, chunk in zip(numbers, chunks, strict=True):
            frame = view[chunk.offset - start : chunk.offset - start + chunk.length]
            found[number] = decompress(bytes(frame), content_bytes=chunk.content_bytes, sha256=chunk.sha256)
        return found

    try:
        return await in_thread(unpack)
    except DamagedChunk as error:
        raise _damaged(key, pack.name, str(error)) from error


def _damaged(key: str, pack: str, detail: str) -> EffectError:
    return EffectError(
        FailureCode.CHECKSUM_MISMATCH,
        f"The archive is damaged: the pack {pack} is not what was stored ({detail}). "
        "The volume was left as it was.",
        archive_key=key,
        pack=pack,
        detail=f"damaged pack: {detail}",
    )
