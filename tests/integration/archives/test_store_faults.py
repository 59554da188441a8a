"""A real S3 server behind a proxy that breaks things: hiccups are ridden out, damage is noticed."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.faulty_http import Fault, FaultyProxy, faulty_proxy
from tests.support.object_stores import SECRET_KEY, S3Server
from tests.support.storage_job import StorageJobEnvironment
from tests.support.trees import snapshot

OBJECT, META = "home.tar.zst ", "home.tar.zst.meta "
ALL_METHODS = ("GET", "HEAD", "PUT", "POST", "DELETE")


@pytest.fixture
def proxy(s3: S3Server) -> Iterator[FaultyProxy]:
    with faulty_proxy(s3.endpoint) as proxy:
        yield proxy


@pytest.fixture
def bucket(s3: S3Server) -> str:
    return s3.new_bucket()


@pytest.fixture
def remote(tmp_path: Path, s3: S3Server, proxy: FaultyProxy, bucket: str) -> StorageJobEnvironment:
    """A home of two parts, archived through the proxy, with short silences and quick retries."""
    environment = StorageJobEnvironment(
        root=tmp_path,
        archive_url=f"s3://{bucket}/archives",
        storage_options=s3.options(endpoint=proxy.url, read_timeout="2s"),
        retry_delays=(0.05, 0.05, 0.05),
    )
    environment.volume.mkdir()
    (environment.volume / "data").write_bytes(os.urandom(10_000_000))
    return environment


@pytest.mark.parametrize("method", ["PUT", "POST", "GET", "HEAD"])
@pytest.mark.parametrize("fault", [Fault.STATUS_500, Fault.STATUS_503, Fault.RESET])
def test_an_archive_rides_out_a_hiccup(
    remote: StorageJobEnvironment, proxy: FaultyProxy, s3: S3Server, bucket: str, fault: Fault, method: str
) -> None:
    proxy.inject(fault, method=method, times=2)
    key = remote.archive().key
    assert len(proxy.struck) == 2
    assert sorted(s3.keys(bucket)) == [f"archives/{key}", f"archives/{key}.meta"]


@pytest.mark.parametrize("fault", [Fault.STATUS_500, Fault.RESET, Fault.HANG, Fault.TRUNCATE, Fault.FLIP])
@pytest.mark.parametrize("part", [OBJECT, META], ids=["object", "meta"])
def test_a_restore_rides_out_a_hiccup(
    remote: StorageJobEnvironment, proxy: FaultyProxy, fault: Fault, part: str
) -> None:
    before = snapshot(remote.volume)
    key = remote.archive().key
    (remote.volume / "data").write_bytes(b"old")
    proxy.inject(fault, method="GET", part=part, times=1)
    assert remote.restore(key).done
    assert proxy.struck
    assert snapshot(remote.volume) == before


@pytest.mark.parametrize("fault", [Fault.HANG, Fault.TRUNCATE, Fault.FLIP])
def test_reading_back_rides_out_a_hiccup(
    remote: StorageJobEnvironment, proxy: FaultyProxy, s3: S3Server, bucket: str, fault: Fault
) -> None:
    proxy.inject(fault, method="GET", part=OBJECT, times=1)
    key = remote.archive().key
    assert proxy.struck
    assert sorted(s3.keys(bucket)) == [f"archives/{key}", f"archives/{key}.meta"]


def test_a_store_that_gives_back_other_bytes_gets_no_meta(
    remote: StorageJobEnvironment, proxy: FaultyProxy, s3: S3Server, bucket: str
) -> None:
    proxy.inject(Fault.FLIP, method="GET", part=OBJECT)
    assert remote.archive().failed["code"] == "READ_BACK_MISMATCH"
    assert s3.keys(bucket) == []
    assert not any(line.startswith("PUT") and ".meta" in line for line in proxy.seen)


def test_damage_that_stays_is_lost_data_and_the_volume_stays(
    remote: StorageJobEnvironment, proxy: FaultyProxy
) -> None:
    key = remote.archive().key
    before = snapshot(remote.volume)
    proxy.inject(Fault.FLIP, method="GET", part=OBJECT, times=-1)
    failed = remote.restore(key).failed
    assert failed["code"] == "CHECKSUM_MISMATCH"
    assert snapshot(remote.volume) == before


def test_uploads_that_fail_leave_nothing_behind(
    remote: StorageJobEnvironment, proxy: FaultyProxy, s3: S3Server, bucket: str
) -> None:
    proxy.inject(Fault.STATUS_503, method="PUT")
    failed = remote.archive().failed
    assert failed["code"] == "S3_ACCESS_ERROR"
    assert s3.keys(bucket) == []
    assert s3.client().list_multipart_uploads(Bucket=bucket).get("Uploads", []) == []


def test_a_store_that_is_away_is_tried_four_times_and_named(
    remote: StorageJobEnvironment, proxy: FaultyProxy
) -> None:
    for method in ALL_METHODS:
        proxy.inject(Fault.STATUS_503, method=method)
    outcome = remote.archive()
    assert outcome.failed["code"] == "S3_ACCESS_ERROR"
    assert outcome.stderr.count("trying again") == 3
    assert remote.archive_url in outcome.failed["message"]


def test_a_missing_bucket_is_not_lost_data(remote: StorageJobEnvironment) -> None:
    key = remote.archive().key
    elsewhere = remote.with_(archive_url="s3://bucket-that-is-not-there/archives", retry_delays=())
    assert elsewhere.restore(key).failed["code"] == "S3_ACCESS_ERROR"
    assert elsewhere.archive().failed["code"] == "S3_ACCESS_ERROR"


def test_no_secret_in_what_a_job_says(remote: StorageJobEnvironment, proxy: FaultyProxy) -> None:
    for method in ALL_METHODS:
        proxy.inject(Fault.RESET, method=method)
    outcome = remote.with_(retry_delays=()).archive()
    assert SECRET_KEY not in json.dumps(outcome.lines) + outcome.stderr
