"""The parts that pack a home: reading ahead in a thread, walking over a volume, writing early to the disk."""

import asyncio
import io
import os
import stat
import tarfile
import threading
from contextlib import aclosing
from pathlib import Path

import pytest
import zstandard

from codehub.archives import directory
from codehub.archives.directory import DirectoryWriter
from codehub.archives.packing import Packer
from codehub.archives.read_ahead import read_ahead
from codehub.archives.survey import Survey, estimate_bytes, survey_volume
from codehub.archives.tarball import PIPE_BYTES, pack
from codehub.domain.errors import EffectError, FailureCode

SECONDS = 20


class Source:
    """Something that makes numbered pieces and can be made to wait, fail or end."""

    def __init__(self, *, pieces: int, fail_at: int | None = None, block_at: int | None = None) -> None:
        self.made = 0
        self.blocked = threading.Event()
        self.unblocked = threading.Event()
        self.returned = threading.Event()
        self._pieces = pieces
        self._fail_at = fail_at
        self._block_at = block_at

    def produce(self) -> bytes:
        if self.made == self._fail_at:
            raise ValueError("the source broke")
        if self.made == self._block_at:
            self.blocked.set()
            assert self.unblocked.wait(SECONDS)
            self.returned.set()
            return b""
        if self.made == self._pieces:
            return b""
        self.made += 1
        return b"%d" % self.made

    async def has_made(self, count: int) -> None:
        async with asyncio.timeout(SECONDS):
            while self.made < count:
                await asyncio.sleep(0.001)


@pytest.mark.parametrize("ahead", [1, 3])
async def test_pieces_come_in_order_and_all_of_them(ahead: int) -> None:
    source = Source(pieces=50)
    read = [piece async for piece in read_ahead(source.produce, unblock=source.unblocked.set, ahead=ahead)]
    assert read == [b"%d" % number for number in range(1, 51)]
    assert not source.unblocked.is_set()


@pytest.mark.parametrize("ahead", [1, 3])
async def test_no_more_is_made_than_fits_before_the_reader(ahead: int) -> None:
    source = Source(pieces=100)
    async with aclosing(read_ahead(source.produce, unblock=source.unblocked.set, ahead=ahead)) as pieces:
        for number in range(1, 20):
            assert await anext(pieces) == b"%d" % number
            await source.has_made(number + ahead)  # it goes on by itself up to there ...
            for _ in range(10):
                await asyncio.sleep(0)
            assert source.made == number + ahead  # ... and no further


async def test_what_the_source_raises_comes_after_the_pieces_before_it() -> None:
    source = Source(pieces=100, fail_at=3)
    async with aclosing(read_ahead(source.produce, unblock=source.unblocked.set, ahead=2)) as pieces:
        assert [await anext(pieces) for _ in range(3)] == [b"1", b"2", b"3"]
        with pytest.raises(ValueError, match="the source broke"):
            await anext(pieces)


async def test_a_reader_that_leaves_takes_a_thread_along_that_waits_for_its_source() -> None:
    source = Source(pieces=9, block_at=1)
    async with aclosing(read_ahead(source.produce, unblock=source.unblocked.set)) as pieces:
        assert await anext(pieces) == b"1"
        assert await asyncio.to_thread(source.blocked.wait, SECONDS)
    assert source.returned.is_set()


async def test_a_reader_that_leaves_takes_a_thread_along_that_waits_for_room() -> None:
    source = Source(pieces=9)
    async with aclosing(read_ahead(source.produce, unblock=source.unblocked.set)) as pieces:
        assert await anext(pieces) == b"1"
        await source.has_made(2)
    assert source.made == 2
    assert source.unblocked.is_set()


async def test_a_cancelled_reader_takes_the_thread_along() -> None:
    source = Source(pieces=9, block_at=0)

    async def read_one() -> None:
        async with aclosing(read_ahead(source.produce, unblock=source.unblocked.set)) as pieces:
            await anext(pieces)

    task = asyncio.create_task(read_one())
    assert await asyncio.to_thread(source.blocked.wait, SECONDS)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert source.returned.is_set()


def make_home(home: Path) -> None:
    (home / "folder" / "empty").mkdir(parents=True)
    (home / "folder" / "file").write_bytes(b"x" * 10_000)
    os.link(home / "folder" / "file", home / "second name")
    (home / "link").symlink_to("folder")  # must be counted, must not be entered
    (home / os.fsdecode(b"caf\xe9")).write_bytes(b"")
    os.mkfifo(home / "fifo")
    with (home / "sparse").open("wb") as sparse:
        sparse.truncate(1 << 30)


def test_a_walk_counts_everything_that_a_restore_brings_back(tmp_path: Path) -> None:
    make_home(tmp_path)
    assert survey_volume(tmp_path) == Survey(files=6)


def test_the_estimate_knows_hard_links_and_holes(tmp_path: Path) -> None:
    make_home(tmp_path)
    estimate = estimate_bytes(tmp_path, stop=threading.Event())
    assert 10_000 < estimate < 10_000 + 10 * 4096


def test_an_estimate_that_nobody_wants_any_more_ends(tmp_path: Path) -> None:
    make_home(tmp_path)
    stop = threading.Event()
    stop.set()
    assert estimate_bytes(tmp_path, stop=stop) == 0


def test_devices_are_found_and_named(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    try:
        os.mknod(tmp_path / "folder" / "disk", stat.S_IFBLK | 0o600, os.makedev(7, 200))
    except PermissionError:  # as somebody else than root there is nothing to find
        return
    with pytest.raises(EffectError, match="folder/disk") as caught:
        survey_volume(tmp_path).require_restorable()
    assert caught.value.failure is FailureCode.HOME_NOT_ARCHIVABLE


def test_every_written_byte_is_handed_to_the_disk_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranges: list[tuple[int, int]] = []
    real = directory._start_writing_back

    def noted(descriptor: int, offset: int, length: int) -> None:
        ranges.append((offset, length))
        real(descriptor, offset, length)

    monkeypatch.setattr(directory, "_start_writing_back", noted)
    writer = DirectoryWriter(tmp_path, "a/b")
    content = os.urandom(3 * 1024 * 1024)
    for _ in range(7):
        writer.write(content)
    writer.close()
    assert (tmp_path / "a" / "b").read_bytes() == content * 7
    assert ranges == [(0, 9 * 1024 * 1024), (9 * 1024 * 1024, 9 * 1024 * 1024)]


@pytest.mark.parametrize("cores", [1, 2, 4])
async def test_on_any_number_of_cores_it_is_one_frame_that_plain_tar_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cores: int
) -> None:
    contents = {
        f"{size}": os.urandom(size) for size in (0, 1, PIPE_BYTES - 1, PIPE_BYTES, 5 * PIPE_BYTES + 1)
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
    tar = pack(tmp_path)
    try:
        packer = Packer(tar)
        async with packer.pieces() as pieces:
            packed = b"".join([piece async for piece in pieces])
    finally:
        tar.close()
    frame = zstandard.ZstdDecompressor().decompressobj()
    unpacked = frame.decompress(packed)
    assert frame.eof
    assert frame.unused_data == b""
    assert len(unpacked) == packer.bytes_read
    with tarfile.open(fileobj=io.BytesIO(unpacked)) as members:
        read = {each.name: members.extractfile(each) for each in members if each.isfile()}
        assert {name.removeprefix("./"): file.read() for name, file in read.items() if file} == contents
