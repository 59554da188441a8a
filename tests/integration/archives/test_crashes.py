"""kill -9 at many points, a closed ear, a polite stop: the next try makes it good and nothing is lost."""

import os
import random
import re
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from codehub.archives.swap import BesideVolume
from tests.support.object_stores import S3Server
from tests.support.storage_job import StorageJobEnvironment, outcome_of
from tests.support.trees import make_every_kind, snapshot

SECONDS = 30.0


def wait_for(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come true"
        time.sleep(0.001)


def bytes_below(folder: Path) -> int:
    total = 0
    for directory, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                total += os.lstat(os.path.join(directory, name)).st_size
    return total


def processes_using(marker: str) -> list[int]:
    """Living processes that carry ``marker`` in their environment: the job and its tar."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if marker.encode() in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


@pytest.fixture
def home(environment: StorageJobEnvironment) -> StorageJobEnvironment:
    make_every_kind(environment.volume)
    (environment.volume / "large").write_bytes(os.urandom(12_000_000))
    return environment


def kill_when(
    environment: StorageJobEnvironment, order: dict[str, object], reached: Callable[[], bool]
) -> bool:
    """Run a job and kill it once ``reached``. False if it was faster than that."""
    with environment.started(order) as process:
        wait_for(lambda: reached() or process.poll() is not None, "the point to kill at")
        early = process.poll() is None
        process.kill()
        process.wait()
    return early


@pytest.mark.parametrize("seed", range(8))
def test_an_archive_killed_anywhere(home: StorageJobEnvironment, seed: int) -> None:
    store = home.root / "archives"
    before = snapshot(home.volume)
    order = home.order("archive")
    point = random.Random(seed).randrange(0, 15_000_000)

    kill_when(home, order, lambda: bytes_below(store) >= point)

    assert snapshot(home.volume) == before
    key = home.run(order).key
    assert home.run(order).key == key  # committed once, found ever after
    home.volume.rename(home.root / "gone")
    home.restore(key)
    assert snapshot(home.volume) == before


@pytest.mark.parametrize("seed", range(8))
def test_a_restore_killed_anywhere(home: StorageJobEnvironment, seed: int) -> None:
    archived = snapshot(home.volume)
    key = home.archive().key
    (home.volume / "large").write_bytes(b"older than the archive")
    old = snapshot(home.volume)
    order = home.order("restore", archive_key=key)
    point = random.Random(seed).randrange(0, 90_000_000)  # the sparse file counts with its length

    kill_when(home, order, lambda: bytes_below(home.staging) >= point)

    assert snapshot(home.volume) in (old, archived)  # nothing in between
    home.run(order)
    assert snapshot(home.volume) == archived
    assert list(home.staging.iterdir()) == []


@pytest.mark.parametrize("seed", range(4))
def test_a_restore_inside_a_mount_point_killed_anywhere(home: StorageJobEnvironment, seed: int) -> None:
    archived = snapshot(home.volume)
    key = home.archive().key
    order = home.order("restore", archive_key=key, swap="inside")
    point = random.Random(seed).randrange(0, 160_000_000)
    kill_when(home, order, lambda: bytes_below(home.volume) >= point)
    home.run(order)
    assert snapshot(home.volume) == archived


def test_an_object_without_meta_is_debris(home: StorageJobEnvironment) -> None:
    """As if killed between the object and its meta: the object does not count, the next try makes its own."""
    store = home.root / "archives"
    order = home.order("archive")
    committed = home.run(order)
    (store / f"{committed.key}.meta").unlink()

    again = home.run(order)

    assert again.key != committed.key
    assert not again.done["reused"]
    assert home.restore(committed.key).failed["code"] == "ARCHIVE_NOT_FOUND"


def test_the_meta_comes_last(home: StorageJobEnvironment, rclone: S3Server) -> None:
    """Seen from outside: whenever a meta is there, its object is there and whole."""
    bucket = rclone.new_bucket()
    environment = home.with_(archive_url=f"s3://{bucket}", storage_options=rclone.options())
    seen: list[list[str]] = []
    with environment.started(environment.order("archive")) as process:
        while process.poll() is None:
            seen.append(sorted(rclone.keys(bucket)))
    for keys in seen:
        metas = [key for key in keys if key.endswith(".meta")]
        assert all(key.removesuffix(".meta") in keys for key in metas)
    assert len(rclone.keys(bucket)) == environment.format_version + 1


def test_tar_dies_with_its_job(home: StorageJobEnvironment) -> None:
    with (home.volume / "endless").open("wb") as file:
        for _ in range(64):
            file.write(os.urandom(1_000_000))
    order = home.order("archive")
    marker = f"CODEHUB_STORAGE_JOB_OF={home.workspace_id}"
    environment = home.with_(env={"CODEHUB_STORAGE_JOB_OF": str(home.workspace_id)})
    with environment.started(order) as process:
        wait_for(lambda: len(processes_using(marker)) == 2, "job and tar")
        process.kill()
        process.wait()
        wait_for(lambda: not processes_using(marker), "the end of tar")


@pytest.mark.parametrize("kind", ["archive", "restore"])
def test_a_polite_stop_leaves_nothing_behind(home: StorageJobEnvironment, kind: str) -> None:
    store = home.root / "archives"
    key = home.archive().key
    kept = sorted(store.rglob("home.tar.zst*"))
    before = snapshot(home.volume)
    order = home.order(kind, archive_key=key)
    place = store if kind == "archive" else home.staging
    start = bytes_below(place)
    with home.started(order) as process:
        wait_for(lambda: bytes_below(place) > start or process.poll() is not None, "the first bytes")
        process.send_signal(signal.SIGTERM)
        stdout, stderr = process.communicate(timeout=SECONDS)
    outcome = outcome_of(process.returncode, stdout, stderr)
    if outcome.final["event"] == "done":
        return  # it was faster than the signal
    assert outcome.failed["code"] == "STORAGE_JOB_FAILED"
    assert sorted(store.rglob("home.tar.zst*")) == kept
    assert not home.staging.exists() or list(home.staging.iterdir()) == []
    assert snapshot(home.volume) == before


def test_a_job_nobody_listens_to_ends(home: StorageJobEnvironment) -> None:
    order = home.order("archive")
    with home.started(order) as process:
        assert process.stdout is not None
        process.stdout.close()
        process.wait(timeout=SECONDS)
        assert process.returncode == 1
        process.stdout = None
    assert not list((home.root / "archives").rglob("*.meta"))
    assert home.run(order).done


def test_what_an_earlier_try_left_is_swept(home: StorageJobEnvironment) -> None:
    key = home.archive().key
    place = BesideVolume(home.volume, staging=home.staging)
    place.sweep()
    leftover = place.make()
    (leftover / "half" / "a home").mkdir(parents=True)
    (leftover / "half").chmod(0o500)
    (home.staging / "not ours").mkdir()
    home.restore(key)
    assert [path.name for path in home.staging.iterdir()] == ["not ours"]


def test_debris_in_a_directory_can_be_seen(home: StorageJobEnvironment) -> None:
    """A killed upload leaves its object under its own name, where the archive GC finds and removes it."""
    store = home.root / "archives"
    if not kill_when(home, home.order("archive"), lambda: bytes_below(store) > 1_000_000):
        pytest.fail("12 MB of noise were archived before the first megabyte was seen")
    names = {path.name for path in store.rglob("*") if path.is_file()}
    if home.format_version == 1:
        assert names == {"home.tar.zst"}
    else:  # packs come first; one that is not whole is hidden, and the next job removes it
        assert all(re.fullmatch(r"[0-9a-f]{64}(#1)?", name) for name in names)
        assert home.archive().done
        assert not list(store.rglob("*#*"))


def test_memory_stays_flat(environment: StorageJobEnvironment) -> None:
    """300 MB of noise through a job: its peak must not grow with the home."""
    environment.volume.mkdir()
    with (environment.volume / "noise").open("wb") as file:
        for _ in range(300):
            file.write(os.urandom(1_000_000))

    def peak_of(order: dict[str, object]) -> int:
        """VmHWM only grows, so the last look at it is the peak. (ru_maxrss would start from our own.)"""
        peak = 0
        with environment.started(order) as process:
            while process.poll() is None:
                status = Path(f"/proc/{process.pid}/status").read_text()
                found = re.search(r"VmHWM:\s+(\d+) kB", status)
                peak = int(found[1]) * 1024 if found else peak
        assert process.returncode == 0
        return peak

    order = environment.order("archive")
    archive_peak = peak_of(order)
    restore_peak = peak_of(environment.order("restore", archive_key=environment.run(order).key))
    print(f"peak: archive {archive_peak >> 20} MiB, restore {restore_peak >> 20} MiB")
    assert archive_peak < 220 * 1024 * 1024
    assert restore_peak < 160 * 1024 * 1024
