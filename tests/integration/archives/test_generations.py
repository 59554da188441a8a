"""Format 2: archive, restore, change, archive again. Every generation comes back byte for byte."""

import asyncio
import json
import os
import random
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codehub.archives import file_index
from codehub.archives.archive import archive
from codehub.archives.contents import EntryNotFound, WrongKind
from codehub.archives.contents_reader import ContentsReader
from codehub.archives.file_index import FileIndex
from codehub.archives.generation import Manifest, open_manifest
from codehub.archives.keys import PackPath, parse_archive_key
from codehub.archives.report import Reporter
from codehub.archives.request import parse_request
from codehub.archives.restore import restore
from codehub.archives.store import ArchiveStore
from tests.support.odd_homes import SHALLOW, make_odd_home
from tests.support.storage_job import StorageJobEnvironment
from tests.support.trees import Entry, hardlink_groups, make_every_kind, snapshot

MIB = 1024 * 1024


@pytest.fixture
def format_version() -> int:
    return 2


class History:
    """One workspace through many generations, by jobs in this process."""

    def __init__(self, root: Path) -> None:
        root.mkdir(parents=True, exist_ok=True)
        (root / "archives").mkdir()
        self.environment = StorageJobEnvironment(
            root=root, archive_url=(root / "archives").as_uri(), format_version=2
        )
        self.volume = self.environment.volume
        self.store = ArchiveStore.from_url(self.environment.archive_url)
        self.base: dict[str, Any] = {}
        self._silence = (root / "said").open("w")

    async def archive(self) -> dict[str, Any]:
        order = self.environment.order("archive", **self.base)
        done = await archive(parse_request(json.dumps(order).encode()), self.store, Reporter(self._silence))
        self.base = {"archive_key": done.archive_key, "archive_sha256": done.extra["sha256"]}
        return {**self.base, **done.extra}

    async def restore(self, generation: dict[str, Any]) -> None:
        names = ("archive_key", "archive_sha256")
        self.base = {name: generation[name] for name in names}
        order = self.environment.order("restore", **self.base)
        await restore(parse_request(json.dumps(order).encode()), self.store, Reporter(self._silence))

    async def manifest(self, generation: dict[str, Any]) -> Manifest:
        path = parse_archive_key(generation["archive_key"])
        assert path is not None
        return await open_manifest(self.store, path, await self.store.read_meta(path.key))

    def seen(self) -> tuple[dict[bytes, Entry], object]:
        return snapshot(self.volume), hardlink_groups(self.volume)


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(tmp_path)


def change(volume: Path, chance: random.Random) -> None:
    """What people do to a home between two archives, by random."""
    found = [(Path(at), names) for at, _, names in os.walk(volume)]  # follows no link
    folders = sorted(at for at, _ in found)
    paths = (at / name for at, names in found for name in names)
    files = sorted(path for path in paths if stat.S_ISREG(path.lstat().st_mode))
    for _ in range(chance.randrange(1, 8)):
        name = chance.choice(folders) / f"new-{chance.randrange(50)}"
        match chance.randrange(9):
            case 0 if not os.path.lexists(name):
                name.write_bytes(chance.randbytes(chance.choice([0, 1, 511, 512, 5000, 3 * MIB])))
            case 1 if files:
                with chance.choice(files).open("r+b") as file:
                    file.seek(chance.randrange(1000))
                    file.write(chance.randbytes(chance.randrange(1, 100)))
            case 2 if files:
                files.pop(chance.randrange(len(files))).unlink()
            case 3 if files and not os.path.lexists(name):
                os.link(chance.choice(files), name)
            case 4 if not os.path.lexists(name):
                name.symlink_to(chance.choice(["/etc", "nowhere", "../up"]))
            case 5 if not os.path.lexists(name):
                folder = chance.choice(folders)
                if folder != volume and folder not in (name, *name.parents) and folder.is_dir():
                    folder.rename(name)
                    return  # the lists above are stale now
            case 6 if files:
                chance.choice(files).chmod(chance.choice([0o600, 0o755, 0o444]))
            case 7 if files:
                changed = chance.choice(files)  # same size and times, other content: only the ctime tells
                status = changed.stat()
                if status.st_size and status.st_nlink == 1:
                    changed.chmod(0o644)
                    changed.write_bytes(chance.randbytes(status.st_size))
                    os.utime(changed, ns=(status.st_atime_ns, status.st_mtime_ns))
            case 8 if not os.path.lexists(name):
                name.mkdir()
            case _:
                pass


@settings(
    max_examples=int(os.environ.get("ROUND_TRIPS", "12")),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(oddities=st.lists(st.sampled_from(SHALLOW), max_size=4, unique=True), seed=st.integers(0, 2**32))
async def test_every_generation_comes_back(
    tmp_path_factory: pytest.TempPathFactory, oddities: list[str], seed: int
) -> None:
    history, chance = History(tmp_path_factory.mktemp("history")), random.Random(seed)
    make_odd_home(history.volume, oddities=oddities)
    (history.volume / "plain").write_bytes(chance.randbytes(10_000))
    kept = []
    for _ in range(3):
        generation = await history.archive()
        kept.append((generation, history.seen()))
        await history.restore(generation)
        assert history.seen() == kept[-1][1]
        change(history.volume, chance)
    for generation, seen in reversed(kept):
        await history.restore(generation)
        assert history.seen() == seen


async def test_only_what_changed_is_stored_and_the_rest_is_not_read(history: History) -> None:
    chance = random.Random(1)
    for number in range(300):
        path = history.volume / f"d{number % 7}" / f"{number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(chance.randbytes(8000))
    (history.volume / "large").write_bytes(chance.randbytes(8 * MIB))
    first = await history.archive()
    await history.restore(first)
    with (history.volume / "large").open("r+b") as file:  # an insertion near the start
        content = file.read()
        file.seek(100)
        file.write(b"inserted" + content[100:])
    for number in range(3):
        (history.volume / f"d{number}" / f"{number}").write_bytes(b"changed")
    second = await history.archive()
    seen = history.seen()
    assert second["new_bytes"] < 0.3 * first["new_bytes"]  # one piece of the large file, three small ones
    await history.restore(second)
    assert history.seen() == seen
    again = await history.archive()
    assert again["new_bytes"] < 20_000


async def test_without_its_index_a_home_is_read_and_not_stored_again(history: History) -> None:
    make_every_kind(history.volume)
    (history.volume / "noise").write_bytes(os.urandom(500_000))
    first = await history.archive()
    await history.restore(first)
    await history.store.delete_packs([PackPath(history.environment.workspace_id, "index")])
    second = await history.archive()
    assert second["new_bytes"] < 50_000
    seen = history.seen()
    await history.restore(second)
    assert history.seen() == seen


async def test_a_change_that_only_the_ctime_tells(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    """Same inode, size and mtime. With the comparison of ctimes left out, the change would be lost."""
    history.volume.mkdir()
    file = history.volume / "file"
    file.write_bytes(b"before")
    first = await history.archive()
    await history.restore(first)
    status = file.stat()
    with file.open("r+b") as same_inode:
        same_inode.write(b"behind")
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))

    def forgets_ctime(self: FileIndex, number: int, found: os.stat_result) -> bool:
        return (self.inodes[number], self.mtimes[number]) == (found.st_ino, found.st_mtime_ns)

    with monkeypatch.context() as planted:
        planted.setattr(file_index.FileIndex, "has_unchanged", forgets_ctime)
        wrong = await history.archive()
    history.base = {name: first[name] for name in ("archive_key", "archive_sha256")}
    right = await history.archive()
    await history.restore(wrong)
    assert file.read_bytes() == b"before"  # the planted bug is one
    await history.restore(right)
    assert file.read_bytes() == b"behind"


async def test_a_damaged_pack_is_found_and_written_again_by_the_next_archive(history: History) -> None:
    history.volume.mkdir()
    (history.volume / "file").write_bytes(os.urandom(100_000))
    first = await history.archive()
    await history.restore(first)
    await history.store.delete_packs([PackPath(history.environment.workspace_id, "index")])
    (pack,) = [
        path for path in (history.environment.root / "archives" / "packs").rglob("*") if path.is_file()
    ]
    raw = bytearray(pack.read_bytes())
    raw[len(raw) // 2] ^= 1
    pack.write_bytes(raw)
    second = await history.archive()  # a full read: compares, and does not trust what it cannot read
    assert second["new_bytes"] > 100_000
    seen = history.seen()
    pack.unlink()
    await history.restore(second)
    assert history.seen() == seen


@pytest.mark.parametrize("damage", ["gone", "short", "flipped"])
def test_a_damaged_pack_is_lost_data_and_leaves_the_volume(
    environment: StorageJobEnvironment, damage: str
) -> None:
    environment.volume.mkdir()
    (environment.volume / "file").write_bytes(os.urandom(100_000))
    key = environment.archive().key
    (pack,) = [path for path in (environment.root / "archives" / "packs").rglob("*") if path.is_file()]
    raw = bytearray(pack.read_bytes())
    if damage == "gone":
        pack.unlink()
    elif damage == "short":
        pack.write_bytes(raw[:1000])
    else:
        raw[50_000] ^= 1
        pack.write_bytes(raw)
    before = snapshot(environment.volume)
    failed = environment.restore(key).failed
    assert failed["code"] == ("ARCHIVE_NOT_FOUND" if damage == "gone" else "CHECKSUM_MISMATCH")
    assert snapshot(environment.volume) == before


async def test_a_folder_is_listed_without_packs(history: History) -> None:
    make_every_kind(history.volume)
    for number in range(5000):  # more than a block
        path = history.volume / "many" / f"{number:04}"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"%d" % number)
    generation = await history.archive()
    packs = history.environment.root / "archives" / "packs"
    packs.rename(packs.with_name("away"))
    manifest = await history.manifest(generation)
    listed = {entry.name: entry for entry, _ in await manifest.list_folder(b"./many")}
    assert sorted(listed) == [b"%04d" % number for number in range(5000)]
    assert listed[b"0123"].size == 3
    top = {entry.name for entry, _ in await manifest.list_folder(b".")}
    assert top == {os.fsencode(name) for name in os.listdir(history.volume)}
    assert await manifest.list_folder(b"./nowhere") == []


def run_tar(options: list[str], stream: bytes) -> None:
    subprocess.run(["tar", *options], input=stream, check=True)


async def test_people_look_into_it(history: History) -> None:
    make_every_kind(history.volume)
    (history.volume / "folder").mkdir()
    (history.volume / "aaa").write_bytes(b"first name")
    os.link(history.volume / "aaa", history.volume / "folder" / "linked")
    (history.volume / "folder" / "large").write_bytes(os.urandom(3 * MIB))
    (history.volume / "folder" / "small").write_bytes(b"small")
    os.link(history.volume / "folder" / "small", history.volume / "folder" / "smaller")
    generation = await history.archive()
    path = parse_archive_key(generation["archive_key"])
    assert path is not None
    reader = ContentsReader(history.store, index_directory=history.environment.root / "indexes")
    opened = reader.open(path, await history.store.read_meta(path.key))

    listing = await opened.list(b"folder", limit=3)
    assert [(entry.name, entry.size) for entry in listing.entries] == [
        ("large", 3 * MIB), ("linked", 10), ("small", 5),
    ]  # fmt: skip
    assert listing.truncated
    for name in ("sparse", "plain.txt", "folder/linked", "folder/smaller", "folder/large"):
        content = b"".join([piece async for piece in opened.read(name.encode())])
        assert content == (history.volume / name).read_bytes()
        assert (await opened.stat(name.encode())).size == len(content)
    with pytest.raises(EntryNotFound):
        await opened.stat(b"folder/nothing")
    with pytest.raises(WrongKind):
        await opened.list(b"plain.txt", limit=1)

    tar = b"".join([piece async for piece in opened.pack(b"folder")])
    target = history.environment.root / "taken"
    target.mkdir()
    await asyncio.to_thread(run_tar, ["-xC", str(target)], tar)
    for name in ("linked", "small", "smaller", "large"):
        assert (target / "folder" / name).read_bytes() == (history.volume / "folder" / name).read_bytes()

    meta = await history.store.read_meta(path.key)
    whole = b"".join([piece async for piece in reader.stream_tar_zst(path, meta)])
    (history.environment.root / "whole").mkdir()
    everything = ["--xattrs", "--xattrs-include=user.*", "--delay-directory-restore"]
    options = ["--zstd", "-xp", *everything, "-C", str(history.environment.root / "whole")]
    await asyncio.to_thread(run_tar, options, whole)
    assert snapshot(history.environment.root / "whole") == snapshot(history.volume)
    await reader.close()


def test_a_home_comes_back_with_python_and_zstd_alone(environment: StorageJobEnvironment) -> None:
    make_every_kind(environment.volume)
    (environment.volume / "large").write_bytes(os.urandom(5 * MIB))
    before, groups = snapshot(environment.volume), hardlink_groups(environment.volume)
    key = environment.archive().key
    target = environment.root / "by-hand"
    script = Path(__file__).parents[3] / "docs" / "operate" / "restore_home.py"
    subprocess.run(["python3", script, environment.root / "archives", key, target], check=True)
    assert snapshot(target) == before
    assert hardlink_groups(target) == groups
