"""One suite, every kind of archive store: memory, a directory, two S3 servers."""

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID, uuid4

import obstore
import pytest

from codehub.archives import store as store_module
from codehub.archives.keys import ArchivePath, new_attempt
from codehub.archives.meta import ArchiveMeta
from codehub.archives.store import ArchiveObject, ArchiveStore
from codehub.domain.errors import EffectError, FailureCode
from tests.support.object_stores import S3Server, moto_server, rclone_server

META = ArchiveMeta(
    sha256="ab" * 32,
    bytes=3,
    files=1,
    uncompressed_bytes=10,
    skipped=0,
    created_at=datetime(2026, 1, 2, tzinfo=UTC),
)


@pytest.fixture(scope="module")
def moto() -> Iterator[S3Server]:
    with moto_server() as server:
        yield server


@pytest.fixture(scope="module")
def rclone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with rclone_server(tmp_path_factory.mktemp("rclone")) as server:
        yield server


@pytest.fixture(params=["memory", "directory", "moto", "rclone"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ArchiveStore:
    match request.param:
        case "memory":
            return ArchiveStore.from_url("memory:///")
        case "directory":
            return ArchiveStore.from_url(f"file://{tmp_path}/archives", create=True)
        case name:
            server: S3Server = request.getfixturevalue(name)
            url = f"s3://{server.new_bucket()}/prefix"
            return ArchiveStore.from_url(url, options=server.options())


async def upload(store: ArchiveStore, path: ArchivePath, data: bytes = b"abc") -> None:
    async with store.open_writer(path) as writer:
        await writer.write(data)


async def commit(store: ArchiveStore, path: ArchivePath) -> None:
    await upload(store, path)
    await store.put_meta(path, META)


async def listed(store: ArchiveStore, prefix: str | None = None) -> list[ArchiveObject]:
    return [entry async for page in store.list_paths(prefix) for entry in page]


async def test_an_empty_store_answers(store: ArchiveStore) -> None:
    await store.probe()
    assert await listed(store) == []
    assert await store.find_committed(uuid4()) == []


async def test_what_goes_in_comes_out(store: ArchiveStore) -> None:
    path = new_attempt(uuid4(), uuid4())
    data = os.urandom(9_000_000)
    async with store.open_writer(path, expected_bytes=len(data)) as writer:
        for start in range(0, len(data), 1_000_000):
            await writer.write(data[start : start + 1_000_000])
    assert await store.size_of(path) == len(data)
    assert b"".join([piece async for piece in store.stream(path, size=len(data))]) == data


async def test_an_object_counts_once_its_meta_is_there(store: ArchiveStore) -> None:
    path = new_attempt(uuid4(), uuid4())
    await upload(store, path)
    assert await store.find_committed(path.workspace_id) == []
    await store.put_meta(path, META)
    (found,) = await store.find_committed(path.workspace_id, path.op_id)
    assert (found.path, found.meta) == (path, META)
    assert await store.read_meta(path.key) == META


async def test_a_meta_without_its_object_does_not_count(store: ArchiveStore) -> None:
    path = new_attempt(uuid4(), uuid4())
    await upload(store, new_attempt(path.workspace_id, path.op_id))
    await store.put_meta(path, META)
    assert await store.find_committed(path.workspace_id) == []


async def test_a_writer_that_is_left_by_an_error_leaves_nothing(store: ArchiveStore) -> None:
    path = new_attempt(uuid4(), uuid4())

    async def fail_half_way() -> None:
        async with store.open_writer(path) as writer:
            await writer.write(os.urandom(9_000_000))
            raise RuntimeError("tar failed")

    with pytest.raises(RuntimeError, match="tar failed"):
        await fail_half_way()
    assert await listed(store) == []


async def test_archives_of_one_workspace_newest_first(store: ArchiveStore) -> None:
    workspace_id, op_id = uuid4(), uuid4()
    paths = [ArchivePath(workspace_id, op_id, f"{number:032x}") for number in range(3)]
    for path in paths:
        await commit(store, path)
    await commit(store, new_attempt(uuid4(), op_id))
    found = await store.find_committed(workspace_id)
    assert [each.path for each in found] == paths[::-1]
    assert len(await store.find_committed(workspace_id, uuid4())) == 0


async def test_listing_goes_page_by_page_and_names_strangers(
    store: ArchiveStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "PAGE_SIZE", 2)
    paths = [new_attempt(uuid4(), uuid4()) for _ in range(3)]
    for path in paths:
        await commit(store, path)
    await obstore.put_async(store._backend, "someone/else.txt", b"hands off")
    pages = [page async for page in store.list_paths()]
    assert max(len(page) for page in pages) == 2
    entries = [entry for page in pages for entry in page]
    assert len(entries) == 7
    assert {entry.key for entry in entries if entry.parsed is None} == {"someone/else.txt"}
    ours = {(entry.parsed.path, entry.parsed.is_meta) for entry in entries if entry.parsed is not None}
    assert ours == {(path, is_meta) for path in paths for is_meta in (False, True)}
    assert {entry.size for entry in entries if entry.key.endswith(".zst")} == {3}


async def test_a_prefix_is_whole_segments(store: ArchiveStore) -> None:
    path = new_attempt(UUID("11111111-1111-4111-8111-111111111111"), uuid4())
    await commit(store, path)
    assert await listed(store, "11111111-1111-4111-8111-11111111111") == []
    assert len(await listed(store, str(path.workspace_id))) == 2


async def test_deleting_in_batches_and_twice(store: ArchiveStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "PAGE_SIZE", 2)
    paths = [new_attempt(uuid4(), uuid4()) for _ in range(5)]
    for path in paths[:4]:
        await commit(store, path)
    await upload(store, paths[4])  # debris has no meta
    kept = new_attempt(paths[0].workspace_id, paths[0].op_id)
    await commit(store, kept)
    await store.delete(paths)
    await store.delete(paths)
    assert sorted(entry.key for entry in await listed(store)) == [kept.key, kept.meta_key]


async def test_what_is_not_there_is_told(store: ArchiveStore) -> None:
    await commit(store, new_attempt(uuid4(), uuid4()))  # the store works, so a missing object is missing
    path = new_attempt(uuid4(), uuid4())
    for ask in (store.read_meta(path.key), store.read_meta("../etc/passwd"), store.size_of(path)):
        with pytest.raises(EffectError) as caught:
            await ask
        assert caught.value.failure is FailureCode.ARCHIVE_NOT_FOUND


async def test_a_directory_that_goes_away_is_a_store_that_is_away(tmp_path: Path) -> None:
    store = ArchiveStore.from_url(f"file://{tmp_path}/archives", create=True)
    path = new_attempt(uuid4(), uuid4())
    await commit(store, path)
    (tmp_path / "archives").rename(tmp_path / "unmounted")
    for ask in (store.probe(), store.read_meta(path.key), listed(store), upload(store, path)):
        with pytest.raises(EffectError) as caught:
            await ask
        assert caught.value.failure is FailureCode.S3_ACCESS_ERROR


async def test_an_endpoint_that_is_away(tmp_path: Path) -> None:
    options = {"endpoint": "http://127.0.0.1:1", "access_key_id": "a", "secret_access_key": "b"}
    store = ArchiveStore.from_url("s3://bucket", options=options)
    with pytest.raises(EffectError) as caught:
        await store.probe()
    assert caught.value.failure is FailureCode.S3_ACCESS_ERROR
    assert caught.value.context["endpoint"] == "s3://bucket"


async def test_plain_http_to_another_machine_has_to_be_asked_for(
    rclone: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"s3://{rclone.new_bucket()}/prefix"
    elsewhere = rclone.endpoint.replace("127.0.0.1", "0.0.0.0")  # an address that does not say "this machine"
    options = rclone.options(endpoint=elsewhere)
    with pytest.raises(EffectError):
        await ArchiveStore.from_url(url, options=options).probe()
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    await ArchiveStore.from_url(url, options=options).probe()
