"""The small parts of a storage job: request, report, retries, space, faults, part sizes, swapping."""

import asyncio
import errno
import io
import json
import os
from concurrent.futures import Future
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from codehub.archives import swap
from codehub.archives.faults import access_error, describe
from codehub.archives.keys import new_attempt
from codehub.archives.meta import ArchiveMeta
from codehub.archives.report import JobResult, Reporter
from codehub.archives.request import RETRY_DELAYS_SECONDS, Direction, Swap, parse_request
from codehub.archives.restore import require_space
from codehub.archives.retries import with_retries
from codehub.archives.store import ArchiveStore
from codehub.archives.tools import check_tools
from codehub.archives.transfer import PART_BYTES, part_size_for
from codehub.domain.errors import EffectError, FailureCode
from codehub.kit.trees import remove_tree


def order(**changes: Any) -> bytes:
    whole = {
        "kind": "restore",
        "workspace_id": str(uuid4()),
        "op_id": str(uuid4()),
        "installation_id": "ours",
        "archive_key": "k",
        "archive_url": "memory:///",
        "volume_path": "/v",
        "staging_dir": "/s",
    }
    return json.dumps({key: value for key, value in (whole | changes).items() if value is not ...}).encode()


def test_a_request_has_sensible_defaults() -> None:
    request = parse_request(order())
    assert (request.kind, request.swap) == (Direction.RESTORE, Swap.EXCHANGE)
    assert request.retry_delays == RETRY_DELAYS_SECONDS
    assert len(RETRY_DELAYS_SECONDS) == 3
    assert 30 <= sum(RETRY_DELAYS_SECONDS) <= 60


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"kind": "destroy"}, "destroy"),
        ({"op_id": ...}, "op_id"),
        ({"workspace_id": "7"}, "UUID"),
        ({"archive_key": None}, "archive_key"),
        ({"staging_dir": None}, "staging_dir"),
        ({"swap": "sideways"}, "sideways"),
    ],
)
def test_a_wrong_request_is_named(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(EffectError, match=named) as caught:
        parse_request(order(**changes))
    assert caught.value.failure is FailureCode.STORAGE_JOB_FAILED


def test_a_request_does_not_show_its_keys() -> None:
    assert "hidden" not in repr(parse_request(order(storage_options={"secret_access_key": "hidden"})))


def test_progress_is_said_twice_a_second_first_and_last_always() -> None:
    output, now = io.StringIO(), [0.0]
    reporter = Reporter(output, now=lambda: now[0])
    for step in range(21):
        now[0] = step * 0.1
        reporter.progress(done_bytes=step, total_bytes=20, files=0)
    now[0] += 0.01
    reporter.progress(done_bytes=21, total_bytes=20, files=3)
    for _ in range(2):
        with reporter.phase("hash"):
            now[0] += 1.5
    reporter.done(JobResult(archive_key="k", bytes=1, files=3, skipped=0, extra={"sha256": "s"}))
    lines = [json.loads(line) for line in output.getvalue().splitlines()]
    assert [line["done_bytes"] for line in lines[:-1]] == [0, 5, 10, 15, 20, 21]
    assert lines[-2]["total_bytes"] == 21  # an estimate is never overtaken
    assert lines[-1] == {
        "event": "done", "archive_key": "k", "bytes": 1, "files": 3, "skipped": 0, "sha256": "s",
        "seconds": {"hash": 3.0},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("failures", "calls"),
    [
        ([FailureCode.S3_ACCESS_ERROR] * 2, 3),
        ([FailureCode.READ_BACK_MISMATCH], 2),
        ([FailureCode.S3_ACCESS_ERROR] * 4, 4),
        ([FailureCode.TAR_CREATE_FAILED], 1),
        ([FailureCode.NO_SPACE], 1),
        ([FailureCode.CHECKSUM_MISMATCH], 1),
    ],
)
async def test_only_the_mood_of_the_store_is_tried_again(failures: list[FailureCode], calls: int) -> None:
    left, made = list(failures), 0

    async def attempt() -> str:
        nonlocal made
        made += 1
        if left:
            raise EffectError(left.pop(0), "no")
        return "done"

    with suppress(EffectError):
        assert await with_retries(attempt, delays=[0, 0, 0]) == "done"
    assert made == calls


def test_space_is_asked_for_before(tmp_path: Path) -> None:
    def meta(**changes: int) -> ArchiveMeta:
        numbers = {"bytes": 1, "files": 1, "uncompressed_bytes": 1, "skipped": 0} | changes
        return ArchiveMeta(
            sha256="0" * 64, created_at=datetime(2026, 1, 1, tzinfo=UTC), binding=None, **numbers
        )

    require_space(tmp_path, meta())
    for too_much in (meta(uncompressed_bytes=1 << 62), meta(files=1 << 50)):
        with pytest.raises(EffectError) as caught:
            require_space(tmp_path, too_much)
        assert caught.value.failure is FailureCode.NO_SPACE


async def test_a_full_archive_directory_is_said_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    store = ArchiveStore.from_url(f"file://{tmp_path}")

    async def fill() -> None:
        async with store.open_writer(new_attempt(uuid4(), uuid4())) as writer:
            monkeypatch.setattr(os, "write", full)
            await writer.write(b"x")

    with pytest.raises(EffectError, match="is full") as caught:
        await fill()
    assert caught.value.failure is FailureCode.NO_SPACE
    assert os.listdir(tmp_path) == []


def test_library_errors_are_cut_short_and_keep_no_signature() -> None:
    long = ValueError("GET http://host/bucket?X-Amz-Signature=abc failed " + "x" * 1000 + "\nsecond line")
    said = describe(long)
    assert "Signature" not in said
    assert len(said) < 320
    assert access_error(long, "listing", endpoint="s3://b").failure is FailureCode.S3_ACCESS_ERROR


@pytest.mark.parametrize("url", ["http://host/x", "file://relative", "file:///", "nonsense", "s3://"])
def test_an_address_that_cannot_be_used_is_refused_in_words(url: str) -> None:
    with pytest.raises(EffectError, match="cannot be used"):
        ArchiveStore.from_url(url)


def test_the_name_of_a_store_keeps_secrets_out() -> None:
    options = {"access_key_id": "a", "secret_access_key": "b", "region": "r"}
    store = ArchiveStore.from_url("s3://user:password@bucket/prefix", options=options)
    assert "password" not in store.endpoint


def test_parts_are_few_enough_for_s3() -> None:
    assert part_size_for(0) == PART_BYTES
    terabyte = 10**12
    assert terabyte / part_size_for(terabyte) < 10_000


def test_without_an_atomic_exchange_the_swap_takes_two_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(swap, "_exchange", lambda *_: False)
    volume = tmp_path / "volume"
    volume.mkdir()
    (volume / "old").touch()
    place = swap.BesideVolume(volume, staging=tmp_path / "staging")
    place.sweep()
    home = place.make()
    (home / "new").touch()
    place.publish(home)
    assert os.listdir(volume) == ["new"]
    assert os.listdir(tmp_path / "staging") == []


def test_removing_never_follows_a_link(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "precious").touch()
    tree = tmp_path / "tree"
    (tree / "deep").mkdir(parents=True)
    (tree / "deep" / "link").symlink_to(tmp_path / "outside")
    (tree / "deep").chmod(0o500)
    remove_tree(tree)
    assert not tree.exists()
    assert (tmp_path / "outside" / "precious").exists()


def test_the_doctor_learns_about_tar_and_the_sandbox() -> None:
    reports = {report.name: report for report in check_tools()}
    assert reports["tar"].ok
    assert "GNU tar" in reports["tar"].detail
    assert not reports["landlock"].required


async def test_a_cancelled_write_is_finished_before_the_file_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the thread would go on writing, to whoever got the descriptor's number next."""
    loop, inside = asyncio.get_running_loop(), asyncio.Event()
    steps: list[str] = []
    written: set[int] = set()
    write, close = os.write, os.close

    def slow_write(descriptor: int, data: Any) -> int:
        loop.call_soon_threadsafe(inside.set)
        released.result(10)
        steps.append("write")
        written.add(descriptor)
        return write(descriptor, data)

    def noted_close(descriptor: int) -> None:
        if descriptor in written:
            steps.append("close")
        close(descriptor)

    released: Future[None] = Future()
    store = ArchiveStore.from_url(f"file://{tmp_path}")

    async def work() -> None:
        async with store.open_writer(new_attempt(uuid4(), uuid4())) as writer:
            monkeypatch.setattr(os, "write", slow_write)
            monkeypatch.setattr(os, "close", noted_close)
            await writer.write(b"x")

    task = asyncio.create_task(work())
    await inside.wait()
    task.cancel()
    await asyncio.sleep(0)
    released.set_result(None)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert steps == ["write", "close"]
    assert os.listdir(tmp_path) == []
