"""Cut the tar stream of a home into chunks: what is new is compressed, what is known is named.

    walk ──names──► tar ──members──► groups of small members, pieces of large ones ──► zstd in several threads

Small members are gathered in the order of folders into chunks of about 2 MiB; one of them that stays unchanged is later
named as a slice of its chunk, so that a changed neighbour costs only itself. A large file is cut by content (FastCDC),
so that an insertion moves no boundary behind it; pieces that are stored already are recognised by their SHA-256.
"""

import queue
import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from pyfastcdc import FastCDC

from codehub.archives.home_walk import Batch, HomeWalk, Planned
from codehub.archives.listing import BlockWriter, Entry
from codehub.archives.manifest import Tail
from codehub.archives.packs import Compressed, compress
from codehub.archives.tar_members import Header, MemberReader
from codehub.archives.tarball import Tar, pack_names
from codehub.domain.errors import EffectError, FailureCode

GROUP_BYTES = 2 * 1024 * 1024
LARGE_BYTES = 1024 * 1024
"""Members with more data are cut by content; smaller ones are whole."""

_SMALLEST_EARLY_GROUP = 128 * 1024
_PIECE_BYTES = (256 * 1024, 1024 * 1024, 4 * 1024 * 1024)  # least, average, most
_FIRST_WINDOW, _WINDOW = 2_000, 20_000  # entries that are walked through before tar reads them
_WAIT_SECONDS = 0.2


class NewChunk(NamedTuple):
    """A chunk on its way to a pack. ``number``: in the manifest that is being made."""

    number: int
    compressed: "Future[Compressed]"


class BaseStream:
    """The stream of the generation before, as far as its packs are proven."""

    def __init__(self, tail: Tail, proven: set[int], read: Callable[[int, int], bytes]) -> None:
        self.tail = tail
        self.read = read  # content of the stream, from the store; blocking
        self._proven = proven
        self._all_proven = len(proven) == len(tail.packs)
        self.starts = tail.run_starts()

    def is_proven(self, begin: int, end: int) -> bool:
        """Whether every pack that holds this part of the stream is proven."""
        if end > self.tail.stream_bytes:
            return False
        return self._all_proven or all(
            self.tail.chunk_packs[chunk] in self._proven
            for chunk, _, _ in self.tail.slices(self.starts, begin, end)
        )


class Cutter:
    """Turns a walk and its tar into chunks, runs and blocks. ``chunks`` is called in one thread."""

    def __init__(
        self, volume: Path, walk: HomeWalk, base: BaseStream | None, pool: ThreadPoolExecutor
    ) -> None:
        self.runs = Tail()  # its chunks are numbers; where they are is known once they are in packs
        self.blocks = BlockWriter()
        self.base_chunks: dict[int, int] = {}  # chunk of the base → number here
        self.chunk_count = 0
        self._volume = volume
        self._walk = walk
        self._tar: Tar | None = None
        self._reader: MemberReader | None = None
        self._base = base
        self._pool = pool
        self._group: list[bytes] = []
        self._group_bytes = 0
        self._group_number = -1
        self._windows: queue.Queue[list[Batch] | BaseException | None] = queue.Queue(1)
        self._stopped = threading.Event()
        self._cdc = FastCDC(min_size=_PIECE_BYTES[0], avg_size=_PIECE_BYTES[1], max_size=_PIECE_BYTES[2])

    def stop(self) -> None:
        """Make both threads end soon: nobody wants the result any more."""
        self._stopped.set()
        if self._tar is not None:
            self._tar.kill()

    def chunks(self) -> Generator[NewChunk, None, None]:
        """Yield new chunks in the order of the stream; raises if tar failed."""
        walker = threading.Thread(target=self._walk_ahead, name="home-walk", daemon=True)
        walker.start()
        try:
            while (window := self._next_window()) is not None:
                yield from self._take_window(window)
            yield from self._flush()
        finally:
            self._stopped.set()
            walker.join()

    def _walk_ahead(self) -> None:
        """Walk the home one window ahead of the reader."""
        try:
            batches: list[Batch] = []
            entries, size = 0, _FIRST_WINDOW
            for batch in self._walk.batches():
                batches.append(batch)
                entries += len(batch.entries)
                if entries >= size:
                    if not self._put(batches):
                        return
                    batches, entries, size = [], 0, _WINDOW
            self._put(batches)
            self._put(None)
        except BaseException as error:  # noqa: BLE001 -- raised again by the thread that waits for windows
            self._put(error)

    def _next_window(self) -> list[Batch] | None:
        while not self._stopped.is_set():
            try:
                window = self._windows.get(timeout=_WAIT_SECONDS)
            except queue.Empty:
                continue
            if isinstance(window, BaseException):
                raise window
            return window
        raise _left_out()

    def _put(self, item: "list[Batch] | BaseException | None") -> bool:
        while not self._stopped.is_set():
            try:
                self._windows.put(item, timeout=_WAIT_SECONDS)
            except queue.Full:
                continue
            return True
        return False

    def _take_window(self, window: list[Batch]) -> Iterator[NewChunk]:
        """Let one tar read all files of a window that are read at all.

        One for the whole home would wait for more names with the last members in its buffer, while the walk waits for
        their reader.
        """
        names = b"".join(
            (batch.folder + b"/" if batch.folder else b"") + each.entry.name + b"\0"
            for batch in window
            for each in batch.entries
            if each.is_read
        )
        self._tar = tar = pack_names(self._volume, names) if names else None
        self._reader = MemberReader(tar.pipe.fileno()) if tar is not None else None
        try:
            if self._stopped.is_set():
                raise EOFError
            for batch in window:
                yield from self._take_batch(batch)
            if tar is not None and self._reader is not None:
                self._reader.drain()
                tar.wait()
        except EOFError:
            if tar is not None:
                tar.wait()  # tar's own words, if it failed
            raise _left_out() from None
        finally:
            if tar is not None:
                tar.close()

    def _take_batch(self, batch: Batch) -> Iterator[NewChunk]:
        start = self.runs.stream_bytes
        entries: list[Entry] = []
        for planned in batch.entries:
            began = self.runs.stream_bytes
            target = planned.entry.target
            if planned.take_over:
                self._name_base(planned)
            elif planned.made:
                yield from self._add_small(planned.made)
            else:
                header = self._next_header(batch.folder, planned)
                target = header.link if planned.entry.kind == "l" else target
                yield from self._add_member(header, planned)
            entries.append(planned.entry._replace(member_bytes=self.runs.stream_bytes - began, target=target))
        self.blocks.add(batch.folder, start, entries)

    def _next_header(self, folder: bytes, planned: Planned) -> Header:
        assert self._reader is not None
        header = self._reader.header()
        expected = (folder + b"/" if folder else b"") + planned.entry.name
        if header is None or header.name.rstrip(b"/") != expected:
            # A file vanished or could not be read: tar says so, with an exit code that fails the job.
            self._reader.drain()
            raise EOFError
        return header

    def _add_member(self, header: Header, planned: Planned) -> Iterator[NewChunk]:
        if header.data_bytes > LARGE_BYTES:
            yield from self._add_small(header.raw)
            if self._group_bytes >= _SMALLEST_EARLY_GROUP:
                yield from self._flush()  # before the data: a restore reads forward
            yield from self._add_pieces(header.data_bytes)
            return
        assert self._reader is not None
        member = header.raw + self._reader.data(header.data_bytes)
        if planned.begin >= 0 and self._base is not None:
            known = planned.entry.member_bytes
            if known == len(member) and self._base.read(planned.begin, planned.begin + known) == member:
                self._name_base(planned)
                return
        yield from self._add_small(member)

    def _add_small(self, member: bytes) -> Iterator[NewChunk]:
        if self._group_number < 0:
            self._group_number = self._new_number()
        self.runs.add_run(self._group_number, self._group_bytes, len(member))
        self._group.append(member)
        self._group_bytes += len(member)
        if self._group_bytes >= GROUP_BYTES:
            yield from self._flush()

    def _flush(self) -> Iterator[NewChunk]:
        if self._group_number < 0:
            return
        content = b"".join(self._group)
        yield NewChunk(self._group_number, self._pool.submit(compress, content))
        self._group, self._group_bytes, self._group_number = [], 0, -1

    def _add_pieces(self, length: int) -> Iterator[NewChunk]:
        pending = b""
        most = _PIECE_BYTES[2]
        while length or pending:
            assert self._reader is not None
            step = min(length, most - len(pending))
            pending += self._reader.data(step)
            length -= step
            cuts = [(cut.offset, cut.length) for cut in self._cdc.cut_buf(pending)]
            # The last cut is where the buffer ends, not where the content says so.
            kept = cuts if not length or len(cuts) == 1 else cuts[:-1]
            for offset, size in kept:
                number = self._new_number()
                yield NewChunk(number, self._pool.submit(compress, pending[offset : offset + size]))
                self.runs.add_run(number, 0, size)
            pending = pending[kept[-1][0] + kept[-1][1] :]

    def _name_base(self, planned: Planned) -> None:
        assert self._base is not None
        end = planned.begin + planned.entry.member_bytes
        for chunk, offset, length in self._base.tail.slices(self._base.starts, planned.begin, end):
            self.runs.add_run(self._base_number(chunk), offset, length)

    def _base_number(self, chunk: int) -> int:
        number = self.base_chunks.get(chunk)
        if number is None:
            number = self.base_chunks[chunk] = self._new_number()
        return number

    def _new_number(self) -> int:
        self.chunk_count += 1
        return self.chunk_count - 1


def _left_out() -> EffectError:
    return EffectError(FailureCode.TAR_CREATE_FAILED, "tar left out files of the home.", action="archive")
