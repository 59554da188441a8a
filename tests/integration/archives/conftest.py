"""Environments for storage jobs: a directory store each, and S3 servers shared within a test process."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.object_stores import S3Server, moto_server, rclone_server
from tests.support.storage_job import StorageJobEnvironment


@pytest.fixture(params=[1, 2], ids=["format1", "format2"])
def format_version(request: pytest.FixtureRequest) -> int:
    version: int = request.param
    return version


@pytest.fixture
def environment(tmp_path: Path, format_version: int) -> StorageJobEnvironment:
    store = tmp_path / "archives"
    store.mkdir()
    return StorageJobEnvironment(root=tmp_path, archive_url=f"file://{store}", format_version=format_version)


@pytest.fixture(scope="session")
def moto() -> Iterator[S3Server]:
    with moto_server() as server:
        yield server


@pytest.fixture(scope="session")
def rclone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with rclone_server(tmp_path_factory.mktemp("rclone")) as server:
        yield server


@pytest.fixture(params=["moto", "rclone"])
def s3(request: pytest.FixtureRequest) -> S3Server:
    server: S3Server = request.getfixturevalue(request.param)
    return server
