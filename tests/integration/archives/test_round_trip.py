"""A home goes into an archive and comes back exactly as it was, whatever it holds."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.object_stores import S3Server
from tests.support.storage_job import Bench
from tests.support.trees import (
    SPARSE_BYTES,
    hardlink_groups,
    make_every_kind,
    make_socket,
    snapshot,
)


def objects_of(bench: Bench) -> list[str]:
    return sorted(path.name for path in (bench.root / "archives").rglob("*") if path.is_file())


def test_every_kind_of_file_comes_back_as_it_was(bench: Bench) -> None:
    make_every_kind(bench.volume)
    before, groups = snapshot(bench.volume), hardlink_groups(bench.volume)

    archived = bench.archive().done
    (bench.volume / "plain.txt").write_bytes(b"changed since")
    (bench.volume / "new").write_bytes(b"not in the archive")
    restored = bench.restore(archived["archive_key"]).done

    assert snapshot(bench.volume) == before
    assert hardlink_groups(bench.volume) == groups
    assert archived["files"] == restored["files"] == sum(entry.kind != "d" for entry in before.values())
    assert list(bench.staging.iterdir()) == []


def test_sparse_files_stay_sparse(bench: Bench) -> None:
    make_every_kind(bench.volume)
    key = bench.archive().key
    bench.restore(key)
    status = (bench.volume / "sparse").stat()
    assert status.st_size == SPARSE_BYTES
    assert status.st_blocks * 512 < SPARSE_BYTES // 8


def test_a_home_comes_back_where_no_volume_is_left(bench: Bench) -> None:
    make_every_kind(bench.volume)
    before = snapshot(bench.volume)
    key = bench.archive().key
    bench.volume.rename(bench.root / "gone")
    assert bench.restore(key).done["archive_key"] == key
    assert snapshot(bench.volume) == before


def test_an_empty_home_is_an_archive_too(bench: Bench) -> None:
    bench.volume.mkdir()
    archived = bench.archive().done
    assert archived["files"] == 0
    bench.volume.rmdir()
    bench.restore(archived["archive_key"])
    assert list(bench.volume.iterdir()) == []


def test_through_s3(s3: S3Server, tmp_path: Path) -> None:
    bucket = s3.new_bucket()
    bench = Bench(root=tmp_path, archive_url=f"s3://{bucket}/deep/prefix", storage_options=s3.options())
    make_every_kind(bench.volume)
    (bench.volume / "large").write_bytes(os.urandom(20 * 1024 * 1024))  # several parts, several ranges
    before = snapshot(bench.volume)

    key = bench.archive().key
    assert sorted(s3.keys(bucket)) == [f"deep/prefix/{key}", f"deep/prefix/{key}.meta"]

    (bench.volume / "large").unlink()
    bench.restore(key)
    assert snapshot(bench.volume) == before


def test_s3_by_the_usual_variables(rclone: S3Server, tmp_path: Path) -> None:
    options = rclone.options()
    env = {
        "AWS_ENDPOINT_URL": options["endpoint"],
        "AWS_ACCESS_KEY_ID": options["access_key_id"],
        "AWS_SECRET_ACCESS_KEY": options["secret_access_key"],
        "AWS_REGION": "us-east-1",
    }
    bench = Bench(root=tmp_path, archive_url=f"s3://{rclone.new_bucket()}", env=env)
    bench.volume.mkdir()
    (bench.volume / "file").write_bytes(b"x")
    assert bench.restore(bench.archive().key).done


def test_sockets_are_skipped_and_counted(bench: Bench) -> None:
    bench.volume.mkdir()
    (bench.volume / "file").write_bytes(b"x")
    make_socket(bench.volume)
    archived = bench.archive().done
    assert (archived["files"], archived["skipped"]) == (1, 1)
    bench.restore(archived["archive_key"])
    assert os.listdir(bench.volume) == ["file"]


def test_a_real_virtual_environment_works_after_its_return(bench: Bench) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", bench.volume / "venv"], check=True)
    before = snapshot(bench.volume)
    key = bench.archive().key
    bench.volume.rename(bench.root / "gone")
    bench.restore(key)
    assert snapshot(bench.volume) == before
    python = bench.volume / "venv" / "bin" / "python"
    assert os.path.isabs(os.readlink(python)) or python.is_symlink()
    said = subprocess.run([python, "-c", "import sys; print(sys.prefix)"], capture_output=True, text=True)
    assert said.stdout.strip() == str(bench.volume / "venv")


@pytest.mark.timeout(300)
def test_a_hundred_thousand_small_files(bench: Bench) -> None:
    for folder in range(500):
        directory = bench.volume / f"package-{folder % 20}" / f"module-{folder}"
        directory.mkdir(parents=True)
        for number in range(200):
            (directory / f"file_{number}.py").write_bytes(b"%d %d\n" % (folder, number))
    before = snapshot(bench.volume)
    archived = bench.archive().done
    assert archived["files"] == 100_000
    bench.volume.rename(bench.root / "gone")
    bench.restore(archived["archive_key"])
    assert snapshot(bench.volume) == before


def test_owners_are_kept_by_number(bench: Bench) -> None:
    """As root any number; as somebody else the own one, which is all such a user can give."""
    bench.volume.mkdir()
    file = bench.volume / "file"
    file.write_bytes(b"x")
    owner = (54321, 12345) if os.geteuid() == 0 else (os.geteuid(), os.getegid())
    os.chown(file, *owner)
    key = bench.archive().key
    bench.restore(key)
    assert (file.stat().st_uid, file.stat().st_gid) == owner


def test_the_second_archive_of_an_operation_is_the_first(bench: Bench) -> None:
    bench.volume.mkdir()
    (bench.volume / "file").write_bytes(b"first")
    order = bench.order("archive")
    first = bench.run(order)
    (bench.volume / "file").write_bytes(b"second")
    assert bench.run(order).key == first.key
    assert objects_of(bench) == ["home.tar.zst", "home.tar.zst.meta"]


def test_another_operation_makes_another_archive(bench: Bench) -> None:
    bench.volume.mkdir()
    assert bench.archive().key != bench.archive().key


def test_restore_inside_a_mount_point(bench: Bench) -> None:
    make_every_kind(bench.volume)
    before = snapshot(bench.volume)
    key = bench.archive().key
    (bench.volume / "names" / "with space").unlink()
    (bench.volume / "newer").mkdir()
    (bench.volume / ".codehub-restore-dead").mkdir()  # left by a try that was killed
    identity = bench.volume.stat().st_ino

    assert bench.restore(key, swap="inside").done

    assert bench.volume.stat().st_ino == identity  # a mount point stays the one it was
    assert snapshot(bench.volume) == before


def test_progress_comes_first_and_reaches_the_total(bench: Bench) -> None:
    bench.volume.mkdir()
    (bench.volume / "file").write_bytes(os.urandom(5_000_000))
    archived = bench.archive()
    for outcome in (archived, bench.restore(archived.key)):
        progress = [line for line in outcome.lines if line["event"] == "progress"]
        assert progress[0]["done_bytes"] == 0
        assert progress[-1]["done_bytes"] == progress[-1]["total_bytes"]
        assert progress[-1]["files"] == 1
        done = [line["done_bytes"] for line in progress]
        assert done == sorted(done)


def test_a_read_only_home_can_be_replaced(bench: Bench) -> None:
    bench.volume.mkdir()
    (bench.volume / "folder").mkdir()
    (bench.volume / "folder" / "file").write_bytes(b"x")
    (bench.volume / "folder").chmod(0o500)
    bench.volume.chmod(0o500)
    key = bench.archive().key
    assert bench.restore(key).done
    assert stat.S_IMODE(bench.volume.stat().st_mode) == 0o500
    assert list(bench.staging.iterdir()) == []
