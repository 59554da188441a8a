"""What a storage job refuses, and that refusing leaves the volume and the store as they were."""

import os
import shutil
import stat
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
import zstandard

from tests.support.archive_forgery import member, meta_of, plant, plant_tar, tar_of
from tests.support.storage_job import Outcome, StorageJobEnvironment
from tests.support.trees import snapshot

SYMLINK, HARDLINK, DIRECTORY = tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE
EVIL = "x" * 150  # long enough for an extended header


@pytest.fixture
def store(environment: StorageJobEnvironment) -> Path:
    return environment.root / "archives"


@pytest.fixture
def home(environment: StorageJobEnvironment) -> Path:
    environment.volume.mkdir()
    (environment.volume / "precious").write_bytes(b"old")
    return environment.volume


def assert_untouched(environment: StorageJobEnvironment) -> None:
    assert {path.name for path in environment.volume.iterdir()} == {"precious"}
    assert (environment.volume / "precious").read_bytes() == b"old"
    assert not environment.staging.exists() or list(environment.staging.iterdir()) == []


def code_of(outcome: Outcome) -> str:
    return str(outcome.failed["code"])


HOSTILE = {
    "absolute name": [member("/tmp/evil")],
    "name with ..": [member("../evil")],
    "name with .. inside": [member("a/../../evil")],
    "long absolute name": [member(f"/tmp/{EVIL}")],
    "long name with ..": [member(f"{EVIL}/../../evil")],
    "through a link": [member("door", SYMLINK, target="/tmp"), member("door/evil")],
    "through a relative link": [
        member("a", DIRECTORY),
        member("door", SYMLINK, target="a"),
        member("./door//evil"),
    ],
    "through a hardlink to a link": [
        member("door", SYMLINK, target="/tmp"),
        member("door2", HARDLINK, target="door"),
        member("door2/evil"),
    ],
    "folder over a link": [member("door", SYMLINK, target="/tmp"), member("door/in", DIRECTORY)],
    "hardlink outside, absolute": [member("evil", HARDLINK, target="/etc/passwd")],
    "hardlink outside, relative": [member("evil", HARDLINK, target="../../../etc/passwd")],
    "hardlink through a link": [
        member("door", SYMLINK, target="/etc"),
        member("evil", HARDLINK, target="door/passwd"),
    ],
    "long hardlink outside": [member("evil", HARDLINK, target=f"/{EVIL}")],
    "character device": [member("null", tarfile.CHRTYPE)],
    "block device": [member("disk", tarfile.BLKTYPE)],
    "unknown kind": [member("what", b"Z")],
    "contiguous is data, multi-volume is not": [member("part", b"M")],
}


@pytest.mark.parametrize("format_version", [1], indirect=True)
@pytest.mark.parametrize("format", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT], ids=["pax", "gnu"])
@pytest.mark.parametrize("members", HOSTILE.values(), ids=HOSTILE.keys())
@pytest.mark.usefixtures("home")
def test_hostile_archives(
    environment: StorageJobEnvironment, store: Path, members: list[tarfile.TarInfo], format: int
) -> None:
    path = plant_tar(store, environment.workspace_id, tar_of(member("ok"), *members, format=format))
    outcome = environment.restore(path.key)
    assert code_of(outcome) == "TAR_EXTRACT_FAILED"
    assert "refused" in outcome.failed["message"]
    assert_untouched(environment)


@pytest.mark.usefixtures("home")
def test_links_that_only_point_somewhere_are_kept(environment: StorageJobEnvironment, store: Path) -> None:
    tar = tar_of(member("a", SYMLINK, target="/etc"), member("b", SYMLINK, target="../../up"))
    path = plant_tar(store, environment.workspace_id, tar)
    assert environment.restore(path.key).done
    assert os.readlink(environment.volume / "a") == "/etc"
    assert os.readlink(environment.volume / "b") == "../../up"


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("cut", [700, 1100, -1024], ids=["in a header", "in the data", "before the end mark"])
def test_a_tar_that_ends_early(environment: StorageJobEnvironment, store: Path, cut: int) -> None:
    whole = tar_of(member("file", size=600))
    end = 512 + 1024  # header and data; then the end mark
    tar = whole[:end] if cut < 0 else whole[:cut]
    path = plant_tar(store, environment.workspace_id, tar)
    assert code_of(environment.restore(path.key)) == "TAR_EXTRACT_FAILED"
    assert_untouched(environment)


@pytest.mark.usefixtures("home")
def test_more_data_than_the_meta_says(environment: StorageJobEnvironment, store: Path) -> None:
    raw = zstandard.ZstdCompressor().compress(tar_of(member("bomb", size=50_000_000)))
    path = plant(store, environment.workspace_id, raw, meta=meta_of(raw, uncompressed_bytes=100_000))
    assert "more data than its meta says" in environment.restore(path.key).failed["message"]
    assert_untouched(environment)


@pytest.mark.usefixtures("home")
def test_what_is_not_zstd(environment: StorageJobEnvironment, store: Path) -> None:
    path = plant(store, environment.workspace_id, b"not a frame" * 100)
    assert code_of(environment.restore(path.key)) == "TAR_EXTRACT_FAILED"
    assert_untouched(environment)


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("position", [0, 100, -1])
def test_a_flipped_bit(environment: StorageJobEnvironment, store: Path, position: int) -> None:
    key = environment.archive().key
    raw = bytearray((store / key).read_bytes())
    raw[position] ^= 1
    (store / key).write_bytes(raw)
    failed = environment.restore(key).failed
    assert (failed["code"], failed["context"]["archive_key"]) == ("CHECKSUM_MISMATCH", key)
    assert_untouched(environment)


@pytest.mark.usefixtures("home")
def test_a_shortened_object(environment: StorageJobEnvironment, store: Path) -> None:
    key = environment.archive().key
    os.truncate(store / key, 60)
    assert code_of(environment.restore(key)) == "CHECKSUM_MISMATCH"
    assert_untouched(environment)


@pytest.mark.usefixtures("home")
def test_a_missing_archive(environment: StorageJobEnvironment, store: Path) -> None:
    key = environment.archive().key
    (store / key).unlink()
    assert code_of(environment.restore(key)) == "ARCHIVE_NOT_FOUND"
    (store / f"{key}.meta").unlink()
    assert code_of(environment.restore(key)) == "ARCHIVE_NOT_FOUND"
    assert_untouched(environment)


@pytest.mark.usefixtures("home")
def test_an_empty_store_is_an_unmounted_disk_not_lost_data(environment: StorageJobEnvironment) -> None:
    key = f"{environment.workspace_id}/{uuid4()}/{uuid4().hex}/home.tar.zst"
    failed = environment.restore(key).failed
    assert failed["code"] == "S3_ACCESS_ERROR"
    assert "mounted" in failed["message"]


@pytest.mark.usefixtures("home")
def test_a_missing_store_is_not_made(environment: StorageJobEnvironment, store: Path) -> None:
    store.rmdir()
    assert code_of(environment.archive()) == "S3_ACCESS_ERROR"
    assert not store.exists()


@pytest.mark.usefixtures("home")
def test_a_damaged_meta(environment: StorageJobEnvironment, store: Path) -> None:
    key = environment.archive().key
    (store / f"{key}.meta").write_bytes(b"{")
    assert code_of(environment.restore(key)) == "CHECKSUM_MISMATCH"
    assert_untouched(environment)


def test_no_volume_to_archive(environment: StorageJobEnvironment, store: Path) -> None:
    assert code_of(environment.archive()) == "VOLUME_MISSING"
    assert list(store.iterdir()) == []


@pytest.mark.parametrize(
    ("script", "code", "words"),
    [
        ('echo "tar: ./gone: Cannot open: No such file or directory" >&2; exit 2', 2, "./gone"),
        ('echo "tar: ./busy: file changed as we read it" >&2; exit 1', 1, "changed"),
        ("kill -9 $$", -9, "no reason"),
    ],
    ids=["unreadable", "changed", "killed"],
)
def test_a_discontent_tar_makes_no_archive(
    environment: StorageJobEnvironment, store: Path, home: Path, script: str, code: int, words: str
) -> None:
    """tar does its whole work, and only then complains: a full-looking archive must not be committed."""
    (home / "data").write_bytes(os.urandom(3_000_000))
    fake = environment.root / "bin" / "tar"
    fake.parent.mkdir()
    real = shutil.which("tar")
    fake.write_text(f'#!/bin/sh\n{real} "$@"\n[ "$1" = --version ] && exit\n{script}\n')
    fake.chmod(0o755)
    broken = environment.with_(env={"PATH": f"{fake.parent}:{os.environ['PATH']}"})
    failed = broken.archive().failed
    assert failed["code"] == "TAR_CREATE_FAILED"
    assert failed["context"]["exit_code"] == code
    assert words in failed["message"]
    assert list(store.iterdir()) == []


def test_a_file_that_may_not_be_read(environment: StorageJobEnvironment, store: Path, home: Path) -> None:
    """Root may read everything, unless it gave up the capabilities for that."""
    for name in ("locked", "잠김", "new\nline", "with: colon"):
        (home / name).write_bytes(b"x")
        (home / name).chmod(0)
    (home / "closed").mkdir(mode=0)
    override, read_search = 1, 2
    failed = environment.with_(drop_capabilities=(override, read_search)).archive().failed
    assert failed["code"] == "HOME_NOT_ARCHIVABLE"
    assert "locked" in failed["message"]
    names = {"locked", "잠김", "new\\nline", "with: colon", "closed"}
    assert set(failed["context"]["files"]) == names  # as their owner knows them
    assert list(store.iterdir()) == []


def test_a_home_that_may_not_be_read_at_all(
    environment: StorageJobEnvironment, store: Path, home: Path
) -> None:
    home.chmod(0)
    override, read_search = 1, 2
    failed = environment.with_(drop_capabilities=(override, read_search)).archive().failed
    home.chmod(0o755)
    assert (failed["code"], failed["context"]["files"]) == ("HOME_NOT_ARCHIVABLE", ["."])
    assert list(store.iterdir()) == []


def test_folders_too_deep_to_be_restored_are_named_and_not_archived(
    environment: StorageJobEnvironment, store: Path, home: Path
) -> None:
    """tar packs them and cannot unpack them: such an archive would be the end of the home."""
    where = os.open(home, os.O_RDONLY)
    for _ in range(21):
        os.mkdir("d" * 200, dir_fd=where)
        below = os.open("d" * 200, os.O_RDONLY, dir_fd=where)
        os.close(where)
        where = below
    os.close(where)
    failed = environment.archive().failed
    assert failed["code"] == "HOME_NOT_ARCHIVABLE"
    assert "too deep" in failed["message"]
    assert len(failed["message"]) < 500
    assert list(store.iterdir()) == []


def test_devices_are_named_and_not_archived(
    environment: StorageJobEnvironment, store: Path, home: Path
) -> None:
    try:
        os.mknod(home / "zero", 0o600 | stat.S_IFCHR, os.makedev(1, 5))
    except PermissionError:
        return  # only root can make one: an ordinary user's home cannot hold any
    failed = environment.archive().failed
    assert failed["code"] == "HOME_NOT_ARCHIVABLE"
    assert "zero" in failed["message"]
    assert list(store.iterdir()) == []


def test_without_tar(environment: StorageJobEnvironment, home: Path) -> None:
    (environment.root / "bin").mkdir()
    failed = environment.with_(env={"PATH": str(environment.root / "bin")}).archive().failed
    assert (failed["code"], failed["context"]["tool"]) == ("TOOL_MISSING", "tar")


def test_a_malformed_request(environment: StorageJobEnvironment) -> None:
    order = environment.order("archive")
    del order["op_id"]
    failed = environment.run(order).failed
    assert failed["code"] == "STORAGE_JOB_FAILED"
    assert "op_id" in failed["message"]


@pytest.mark.usefixtures("home")
def test_no_space_for_a_restore_is_said_before_writing(
    environment: StorageJobEnvironment, store: Path
) -> None:
    raw = zstandard.ZstdCompressor().compress(tar_of(member("file")))
    path = plant(store, environment.workspace_id, raw, meta=meta_of(raw, uncompressed_bytes=1 << 60))
    failed = environment.restore(path.key).failed
    assert failed["code"] == "NO_SPACE"
    assert failed["context"]["needed_bytes"] > failed["context"]["free_bytes"]
    assert_untouched(environment)


if os.geteuid() == 0:  # a small disk is mounted, which nobody else may do; tests/unit covers the words

    @pytest.fixture
    def small_disk(tmp_path: Path) -> Iterator[Path]:
        disk = tmp_path / "small"
        disk.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", disk], check=True)
        yield disk
        subprocess.run(["umount", "--lazy", disk], check=True)

    def test_a_full_archive_store_is_said_in_words(
        environment: StorageJobEnvironment, home: Path, small_disk: Path
    ) -> None:
        (home / "large").write_bytes(os.urandom(12_000_000))
        failed = environment.with_(archive_url=f"file://{small_disk}").archive().failed
        assert failed["code"] == "NO_SPACE"
        assert "full" in failed["message"]
        assert list(small_disk.iterdir()) == []

    def test_a_disk_that_fills_up_during_a_restore(
        environment: StorageJobEnvironment, store: Path, small_disk: Path
    ) -> None:
        raw = zstandard.ZstdCompressor().compress(tar_of(member("file", size=12_000_000)))
        path = plant(store, environment.workspace_id, raw, meta=meta_of(raw, uncompressed_bytes=0))
        assert environment.restore(
            path.key, volume_path=str(small_disk / "volume"), staging_dir=str(small_disk / "staging")
        ).failed["code"] in ("NO_SPACE", "TAR_EXTRACT_FAILED")
        assert list((small_disk / "staging").iterdir()) == []


def test_snapshots_do_tell_differences(home: Path) -> None:
    """The other tests lean on this comparison."""
    before = snapshot(home)
    os.utime(home / "precious", ns=(1, 2))
    assert snapshot(home) != before
