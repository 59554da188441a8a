"""A home goes into an archive and comes back exactly as it was, whatever it holds."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from codehub.archives.keys import OBJECT_NAMES, PACKS
from tests.support.object_stores import S3Server
from tests.support.storage_job import StorageJobEnvironment
from tests.support.trees import (
    SPARSE_BYTES,
    hardlink_groups,
    make_every_kind,
    make_socket,
    snapshot,
)


def objects_of(environment: StorageJobEnvironment) -> list[str]:
    store = environment.root / "archives"
    found = (path.relative_to(store) for path in store.rglob("*") if path.is_file())
    return sorted(path.name for path in found if path.parts[0] != PACKS)


def test_every_kind_of_file_comes_back_as_it_was(environment: StorageJobEnvironment) -> None:
    make_every_kind(environment.volume)
    before, groups = snapshot(environment.volume), hardlink_groups(environment.volume)

    archived = environment.archive().done
    (environment.volume / "plain.txt").write_bytes(b"changed since")
    (environment.volume / "new").write_bytes(b"not in the archive")
    restored = environment.restore(archived["archive_key"]).done

    assert snapshot(environment.volume) == before
    assert hardlink_groups(environment.volume) == groups
    assert archived["files"] == restored["files"] == sum(entry.kind != "d" for entry in before.values())
    assert list(environment.staging.iterdir()) == []


def test_sparse_files_stay_sparse(environment: StorageJobEnvironment) -> None:
    make_every_kind(environment.volume)
    key = environment.archive().key
    environment.restore(key)
    status = (environment.volume / "sparse").stat()
    assert status.st_size == SPARSE_BYTES
    assert status.st_blocks * 512 < SPARSE_BYTES // 8


def test_a_home_comes_back_where_no_volume_is_left(environment: StorageJobEnvironment) -> None:
    make_every_kind(environment.volume)
    before = snapshot(environment.volume)
    key = environment.archive().key
    environment.volume.rename(environment.root / "gone")
    assert environment.restore(key).done["archive_key"] == key
    assert snapshot(environment.volume) == before


def test_an_empty_home_is_an_archive_too(environment: StorageJobEnvironment) -> None:
    environment.volume.mkdir()
    archived = environment.archive().done
    assert archived["files"] == 0
    environment.volume.rmdir()
    environment.restore(archived["archive_key"])
    assert list(environment.volume.iterdir()) == []


def test_through_s3(s3: S3Server, tmp_path: Path, format_version: int) -> None:
    bucket = s3.new_bucket()
    environment = StorageJobEnvironment(
        root=tmp_path,
        archive_url=f"s3://{bucket}/deep/prefix",
        storage_options=s3.options(),
        format_version=format_version,
    )
    make_every_kind(environment.volume)
    (environment.volume / "large").write_bytes(os.urandom(20 * 1024 * 1024))  # several parts, several ranges
    before = snapshot(environment.volume)

    key = environment.archive().key
    homes = sorted(each for each in s3.keys(bucket) if not each.startswith(f"deep/prefix/{PACKS}/"))
    assert homes == [f"deep/prefix/{key}", f"deep/prefix/{key}.meta"]

    (environment.volume / "large").unlink()
    environment.restore(key)
    assert snapshot(environment.volume) == before


def test_s3_by_the_usual_variables(rclone: S3Server, tmp_path: Path) -> None:
    options = rclone.options()
    env = {
        "AWS_ENDPOINT_URL": options["endpoint"],
        "AWS_ACCESS_KEY_ID": options["access_key_id"],
        "AWS_SECRET_ACCESS_KEY": options["secret_access_key"],
        "AWS_REGION": "us-east-1",
    }
    environment = StorageJobEnvironment(root=tmp_path, archive_url=f"s3://{rclone.new_bucket()}", env=env)
    environment.volume.mkdir()
    (environment.volume / "file").write_bytes(b"x")
    assert environment.restore(environment.archive().key).done


def test_sockets_are_skipped_and_counted(environment: StorageJobEnvironment) -> None:
    environment.volume.mkdir()
    (environment.volume / "file").write_bytes(b"x")
    make_socket(environment.volume)
    archived = environment.archive().done
    assert (archived["files"], archived["skipped"]) == (1, 1)
    environment.restore(archived["archive_key"])
    assert os.listdir(environment.volume) == ["file"]


def test_a_real_virtual_environment_works_after_its_return(environment: StorageJobEnvironment) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment.volume / "venv"], check=True)
    before = snapshot(environment.volume)
    key = environment.archive().key
    environment.volume.rename(environment.root / "gone")
    environment.restore(key)
    assert snapshot(environment.volume) == before
    python = environment.volume / "venv" / "bin" / "python"
    assert os.path.isabs(os.readlink(python)) or python.is_symlink()
    said = subprocess.run([python, "-c", "import sys; print(sys.prefix)"], capture_output=True, text=True)
    assert said.stdout.strip() == str(environment.volume / "venv")


@pytest.mark.timeout(300)
def test_a_hundred_thousand_small_files(environment: StorageJobEnvironment) -> None:
    folders = 500 if environment.format_version == 1 else 100
    for folder in range(folders):
        directory = environment.volume / f"package-{folder % 20}" / f"module-{folder}"
        directory.mkdir(parents=True)
        for number in range(200):
            (directory / f"file_{number}.py").write_bytes(b"%d %d\n" % (folder, number))
    before = snapshot(environment.volume)
    archived = environment.archive().done
    assert archived["files"] == 200 * folders
    environment.volume.rename(environment.root / "gone")
    environment.restore(archived["archive_key"])
    assert snapshot(environment.volume) == before


def test_owners_are_kept_by_number(environment: StorageJobEnvironment) -> None:
    """As root any number; as somebody else the own one, which is all such a user can give."""
    environment.volume.mkdir()
    file = environment.volume / "file"
    file.write_bytes(b"x")
    owner = (54321, 12345) if os.geteuid() == 0 else (os.geteuid(), os.getegid())
    os.chown(file, *owner)
    key = environment.archive().key
    environment.restore(key)
    assert (file.stat().st_uid, file.stat().st_gid) == owner


def test_the_second_archive_of_an_operation_is_the_first(environment: StorageJobEnvironment) -> None:
    environment.volume.mkdir()
    (environment.volume / "file").write_bytes(b"first")
    order = environment.order("archive")
    first = environment.run(order)
    (environment.volume / "file").write_bytes(b"second")
    assert environment.run(order).key == first.key
    name = OBJECT_NAMES[environment.format_version]
    assert objects_of(environment) == [name, f"{name}.meta"]


def test_another_operation_makes_another_archive(environment: StorageJobEnvironment) -> None:
    environment.volume.mkdir()
    assert environment.archive().key != environment.archive().key


def test_restore_inside_a_mount_point(environment: StorageJobEnvironment) -> None:
    make_every_kind(environment.volume)
    before = snapshot(environment.volume)
    key = environment.archive().key
    (environment.volume / "names" / "with space").unlink()
    (environment.volume / "newer").mkdir()
    (environment.volume / ".codehub-restore-dead").mkdir()  # left by a try that was killed
    identity = environment.volume.stat().st_ino

    assert environment.restore(key, swap="inside").done

    assert environment.volume.stat().st_ino == identity  # a mount point stays the one it was
    assert snapshot(environment.volume) == before


def test_progress_comes_first_and_reaches_the_total(environment: StorageJobEnvironment) -> None:
    environment.volume.mkdir()
    (environment.volume / "file").write_bytes(os.urandom(5_000_000))
    archived = environment.archive()
    for outcome in (archived, environment.restore(archived.key)):
        progress = [line for line in outcome.lines if line["event"] == "progress"]
        assert progress[0]["done_bytes"] == 0
        assert progress[-1]["done_bytes"] == progress[-1]["total_bytes"]
        assert progress[-1]["files"] == 1
        done = [line["done_bytes"] for line in progress]
        assert done == sorted(done)


def test_a_read_only_home_can_be_replaced(environment: StorageJobEnvironment) -> None:
    environment.volume.mkdir()
    (environment.volume / "folder").mkdir()
    (environment.volume / "folder" / "file").write_bytes(b"x")
    (environment.volume / "folder").chmod(0o500)
    environment.volume.chmod(0o500)
    key = environment.archive().key
    assert environment.restore(key).done
    assert stat.S_IMODE(environment.volume.stat().st_mode) == 0o500
    assert list(environment.staging.iterdir()) == []
