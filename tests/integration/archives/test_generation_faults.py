"""Format 2 on an S3 server that fails, lies and forgets: packs and manifests are ridden out or refused."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from codehub.archives.keys import PACKS
from tests.support.faulty_http import Fault, FaultyProxy, faulty_proxy
from tests.support.object_stores import S3Server
from tests.support.storage_job import StorageJobEnvironment
from tests.support.trees import snapshot

PACK, MANIFEST = f"/{PACKS}/", "home.manifest"


@pytest.fixture
def proxy(moto: S3Server) -> Iterator[FaultyProxy]:
    with faulty_proxy(moto.endpoint) as proxy:
        yield proxy


@pytest.fixture
def bucket(moto: S3Server) -> str:
    return moto.new_bucket()


@pytest.fixture
def remote(tmp_path: Path, moto: S3Server, proxy: FaultyProxy, bucket: str) -> StorageJobEnvironment:
    environment = StorageJobEnvironment(
        root=tmp_path,
        archive_url=f"s3://{bucket}/archives",
        storage_options=moto.options(endpoint=proxy.url, read_timeout="2s"),
        retry_delays=(0.05, 0.05, 0.05),
        format_version=2,
    )
    environment.volume.mkdir()
    (environment.volume / "data").write_bytes(os.urandom(3_000_000))
    return environment


@pytest.mark.parametrize(
    ("fault", "method", "part"),
    [
        (Fault.STATUS_503, "PUT", PACK),
        (Fault.RESET, "PUT", MANIFEST),
        (Fault.FLIP, "GET", PACK),
        (Fault.TRUNCATE, "GET", MANIFEST),
    ],
)
def test_an_archive_and_its_restore_ride_out_a_hiccup(
    remote: StorageJobEnvironment, proxy: FaultyProxy, fault: Fault, method: str, part: str
) -> None:
    before = snapshot(remote.volume)
    proxy.inject(fault, method=method, part=part, times=1)
    key = remote.archive().key
    assert proxy.struck
    if method == "GET":
        proxy.inject(fault, method=method, part=part, times=1)
    (remote.volume / "data").write_bytes(b"old")
    assert remote.restore(key).done
    assert snapshot(remote.volume) == before


def test_packs_that_come_back_as_other_bytes_get_no_meta_and_leave_nothing(
    remote: StorageJobEnvironment, proxy: FaultyProxy, moto: S3Server, bucket: str
) -> None:
    proxy.inject(Fault.FLIP, method="GET", part=PACK)
    assert remote.archive().failed["code"] == "READ_BACK_MISMATCH"
    assert moto.keys(bucket) == []
    assert not any(line.startswith("PUT") and MANIFEST in line for line in proxy.seen)


def test_damage_that_stays_is_lost_data_and_the_volume_stays(
    remote: StorageJobEnvironment, proxy: FaultyProxy
) -> None:
    key = remote.archive().key
    before = snapshot(remote.volume)
    proxy.inject(Fault.FLIP, method="GET", part=PACK, times=-1)
    assert remote.restore(key).failed["code"] == "CHECKSUM_MISMATCH"
    assert snapshot(remote.volume) == before


def test_an_archive_again_takes_few_requests(remote: StorageJobEnvironment, proxy: FaultyProxy) -> None:
    first = remote.archive().done
    base = {"archive_key": first["archive_key"], "archive_sha256": first["sha256"]}
    remote.restore(base["archive_key"], archive_sha256=base["archive_sha256"])
    (remote.volume / "note").write_bytes(b"changed")
    before = len(proxy.seen)
    again = remote.archive(**base).done
    requests = proxy.seen[before:]
    assert again["new_bytes"] < 0.02 * first["new_bytes"]
    assert len(requests) <= 20
