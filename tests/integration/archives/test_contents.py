"""Looking into an archive: what is listed, read and packed is what was archived, and hostile bytes are refused."""

import io
import json
import os
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import pytest

from codehub.archives import index_cache
from codehub.archives.contents import (
    ArchiveContents,
    ArchiveUnreadable,
    Entry,
    EntryKind,
    EntryNotFound,
    WrongKind,
    clean_path,
)
from codehub.archives.contents_reader import ContentsReader
from codehub.archives.index_cache import StillReading
from codehub.archives.keys import ArchivePath, parse_archive_key
from codehub.archives.store import ArchiveStore
from tests.support.archive_forgery import member, plant, plant_tar, tar_of
from tests.support.odd_homes import SHALLOW, make_odd_home
from tests.support.storage_job import StorageJobEnvironment
from tests.support.waiting import until

LIMIT = 10_000


@pytest.fixture
def format_version() -> int:
    """Format 1, whose index this is about; a manifest of format 2 is one already (``test_generations``)."""
    return 1


@pytest.fixture
async def reader(environment: StorageJobEnvironment) -> AsyncIterator[ContentsReader]:
    made = ContentsReader(a_store(environment), index_directory=environment.root / "indexes")
    yield made
    await made.close()


def a_store(environment: StorageJobEnvironment) -> ArchiveStore:
    return ArchiveStore.from_url(environment.archive_url)


def store_path(environment: StorageJobEnvironment) -> Path:
    return environment.root / "archives"


def archived(environment: StorageJobEnvironment) -> ArchivePath:
    path = parse_archive_key(environment.archive(uuid4()).done["archive_key"])
    assert path is not None
    return path


async def contents(
    reader: ContentsReader, environment: StorageJobEnvironment, path: ArchivePath
) -> ArchiveContents:
    return reader.open(path, await a_store(environment).read_meta(path.key))


async def all_of(opened: ArchiveContents, folder: bytes = b"") -> dict[bytes, Entry]:
    found: dict[bytes, Entry] = {}
    for each in (await opened.list(folder, limit=LIMIT)).entries:
        found[each.path] = each
        if each.kind is EntryKind.DIRECTORY:
            found |= await all_of(opened, each.path)
    return found


async def read(opened: ArchiveContents, path: bytes) -> bytes:
    return b"".join([piece async for piece in opened.read(path)])


async def packed(opened: ArchiveContents, folder: bytes) -> tarfile.TarFile:
    raw = b"".join([piece async for piece in opened.pack(folder)])
    return tarfile.open(fileobj=io.BytesIO(raw), errors="surrogateescape")


def names_below(home: bytes) -> set[bytes]:
    return {
        os.path.relpath(os.path.join(folder, name), home)
        for folder, folders, files in os.walk(home)
        for name in (*folders, *files)
    }


async def test_every_kind_of_file_is_listed_and_read_as_it_was(
    environment: StorageJobEnvironment, reader: ContentsReader
) -> None:
    make_odd_home(environment.volume, SHALLOW, nested=True)
    opened = await contents(reader, environment, archived(environment))
    found = await all_of(opened)
    home = os.fsencode(environment.volume)
    assert set(found) == names_below(home)
    for path, entry in found.items():
        status = os.lstat(os.path.join(home, path))
        assert (entry.mode, entry.mtime_ns) == (status.st_mode & 0o7777, status.st_mtime_ns), path
        if entry.kind is EntryKind.SYMLINK:
            assert entry.target == os.readlink(os.path.join(home, path))
    files = [path for path, entry in found.items() if entry.kind is EntryKind.FILE]
    for path in files[:10] + files[-2:]:
        assert await read(opened, path) == (environment.volume / os.fsdecode(path)).read_bytes()


async def test_a_sparse_file_has_its_holes(
    environment: StorageJobEnvironment, reader: ContentsReader
) -> None:
    environment.volume.mkdir()
    with (environment.volume / "sparse").open("wb") as file:
        for number in range(100):  # a map of several blocks
            file.seek(number * 300_000)
            file.write(b"%d" % number)
        file.truncate(40_000_000)
    opened = await contents(reader, environment, archived(environment))
    assert (await opened.stat(b"sparse")).size == 40_000_000
    assert await read(opened, b"sparse") == (environment.volume / "sparse").read_bytes()


async def test_a_folder_is_packed_with_all_in_it_and_nothing_else(
    environment: StorageJobEnvironment, reader: ContentsReader, tmp_path: Path
) -> None:
    home = environment.volume
    (home / "src" / "lib" / "deep").mkdir(parents=True)
    (home / "src" / "lib" / "a").write_bytes(b"a" * 1000)
    (home / "src" / "lib" / "deep" / os.fsdecode(b"\xff" * 120)).write_bytes(b"odd")
    (home / "src" / "lib" / "link").symlink_to("/etc/passwd")
    os.link(home / "src" / "lib" / "a", home / "src" / "lib" / "same")
    (home / "src" / "library").write_bytes(b"beside")
    os.link(home / "src" / "library", home / "src" / "lib" / "linked-from-beside")
    opened = await contents(reader, environment, archived(environment))
    with await packed(opened, b"src/lib") as tar:
        tar.extractall(tmp_path / "out", filter="fully_trusted")
    out = tmp_path / "out" / "lib"
    assert sorted(os.listdir(tmp_path / "out")) == ["lib"]
    assert sorted(os.listdir(out)) == ["a", "deep", "link", "linked-from-beside", "same"]
    assert (out / "a").read_bytes() == (out / "same").read_bytes() == b"a" * 1000
    assert (out / "a").stat().st_ino == (out / "same").stat().st_ino
    assert (out / "linked-from-beside").read_bytes() == b"beside"
    assert (out / "deep" / os.fsdecode(b"\xff" * 120)).read_bytes() == b"odd"
    assert os.readlink(out / "link") == "/etc/passwd"
    with await packed(opened, b"") as whole:
        assert {"src/library", "src/lib/a"} <= set(whole.getnames())
    with await packed(opened, b"src/lib/a") as one:
        assert one.getnames() == ["a"]


async def test_what_is_not_there_and_what_is_of_another_kind(
    environment: StorageJobEnvironment, reader: ContentsReader
) -> None:
    (environment.volume / "folder").mkdir(parents=True)
    (environment.volume / "file").write_bytes(b"x")
    opened = await contents(reader, environment, archived(environment))
    for missing in (b"none", b"file/below", b"folder/none"):
        with pytest.raises(EntryNotFound):
            await opened.stat(missing)
        with pytest.raises(EntryNotFound):
            await read(opened, missing)
    with pytest.raises(WrongKind):
        await opened.list(b"file", limit=LIMIT)
    with pytest.raises(WrongKind):
        await read(opened, b"folder")
    assert (await opened.list(b"", limit=1)).truncated
    for hostile in ("../x", "a/../../x", "a\0b"):
        with pytest.raises(EntryNotFound):
            clean_path(hostile)
    assert clean_path("/./folder//a/") == b"folder/a"


HOSTILE = {
    "an absolute name": tar_of(member("/etc/passwd")),
    "a name that climbs": tar_of(member("a/../../b")),
    "behind a link": tar_of(member("l", tarfile.SYMTYPE, target="/etc"), member("l/passwd")),
    "a device": tar_of(member("d", tarfile.CHRTYPE)),
    "not a tar": b"x" * 5000,
    "a name of megabytes": tar_of(member("n" * 100_000)),
    "cut": tar_of(member("a", size=5000))[:2000],
}


@pytest.mark.parametrize("what", HOSTILE)
async def test_a_hostile_archive_is_refused(
    environment: StorageJobEnvironment, reader: ContentsReader, what: str
) -> None:
    path = plant_tar(store_path(environment), uuid4(), HOSTILE[what])
    opened = await contents(reader, environment, path)
    with pytest.raises(ArchiveUnreadable):
        await opened.list(b"", limit=LIMIT)
    assert list((environment.root / "indexes").iterdir()) == []


async def test_more_data_than_the_meta_says_and_other_bytes_are_refused(
    environment: StorageJobEnvironment, reader: ContentsReader
) -> None:
    environment.volume.mkdir()
    (environment.volume / "zeros").write_bytes(bytes(50_000_000))
    path = archived(environment)
    meta = (store_path(environment) / path.meta_key).read_text()
    fewer = json.dumps(json.loads(meta) | {"uncompressed_bytes": 20_000_000})
    (store_path(environment) / path.meta_key).write_text(fewer)
    with pytest.raises(ArchiveUnreadable, match="more data"):
        await (await contents(reader, environment, path)).list(b"", limit=LIMIT)
    other = plant(store_path(environment), uuid4(), b"not zstd at all")
    with pytest.raises(ArchiveUnreadable):
        await (await contents(reader, environment, other)).list(b"", limit=LIMIT)
    flipped = bytearray((store_path(environment) / path.key).read_bytes())
    flipped[-3] ^= 1
    (store_path(environment) / path.meta_key).write_text(meta)
    (store_path(environment) / path.key).write_bytes(flipped)
    with pytest.raises(ArchiveUnreadable, match="checksum"):
        await (await contents(reader, environment, path)).list(b"", limit=LIMIT)


async def test_an_index_is_made_once_kept_within_bounds_and_made_again(
    environment: StorageJobEnvironment, reader: ContentsReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment.volume.mkdir()
    (environment.volume / "file").write_bytes(b"x")
    indexes = environment.root / "indexes"
    path = archived(environment)
    opened = await contents(reader, environment, path)
    await opened.list(b"", limit=LIMIT)
    (first,) = indexes.iterdir()
    made = first.stat().st_ino
    await opened.stat(b"file")
    assert first.stat().st_ino == made
    first.unlink()  # an operator may
    assert (await opened.stat(b"file")).size == 1
    monkeypatch.setattr(index_cache, "WAIT_SECONDS", 0.0)
    other = await contents(reader, environment, archived(environment))
    with pytest.raises(StillReading):
        await other.list(b"", limit=LIMIT)
    # Made to its end without the request. Beyond the bound the oldest one goes.
    reader._indexes._kept_bytes = 1
    await until(lambda: len(list(indexes.glob("*.index"))) == 1 and not first.exists())
    assert (await other.stat(b"file")).size == 1
