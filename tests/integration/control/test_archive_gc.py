"""The GC removes what nobody protects, late; everything else stays."""

import json
from collections.abc import AsyncIterator, Sequence
from uuid import UUID, uuid4

import pytest
from sqlalchemy import Text, text

from codehub.archives.keys import ArchivePath, PackPath
from codehub.archives.listing import BlockWriter
from codehub.archives.manifest import PackRef, Tail, encode_manifest
from codehub.archives.store import ArchiveObject, ArchiveStore
from codehub.domain.errors import EffectError, FailureCode
from codehub.server.control_plane import ControlPlane
from codehub.store.cluster import terms
from codehub.store.db.typed_text import typed_text
from tests.support.control import ControlEnvironment, fast_settings
from tests.support.waiting import until


async def cycles(plane: ControlPlane, *, more: int) -> None:
    loop = plane.loops["gc"]
    target = loop.status.ticks + more

    async def reached() -> bool:
        return loop.status.ticks >= target

    await until(reached, what=f"{more} more cycles of the GC")


TERMINAL = (
    '{"reason": "DataLost", "message": "m", "is_terminal": true, "operation": "NONE",'
    ' "error_count": 1, "context": {}, "occurred_at": "2026-01-01T00:00:00+00:00"}'
)


def put(environment: ControlEnvironment, key: str, *, meta: bool = True) -> str:
    path = environment.data_dir / "archives" / key
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"not read by the GC")
    if meta:
        path.with_name(path.name + ".meta").write_bytes(b"{}")
    return key


def key(workspace_id: UUID, op_id: UUID | None = None) -> str:
    return ArchivePath(workspace_id, op_id or uuid4(), uuid4().hex).key


def is_there(environment: ControlEnvironment, path: str) -> bool:
    return (environment.data_dir / "archives" / path).exists()


async def gone(environment: ControlEnvironment, path: str) -> None:
    async def check() -> bool:
        return not is_there(environment, path)

    await until(check, what=f"{path} to be removed")


async def set_columns(
    environment: ControlEnvironment, workspace_id: UUID, assignments: str, **values: object
) -> None:
    async with environment.sessions() as session, session.begin():
        await session.exec(
            text(f"UPDATE workspaces SET {assignments} WHERE id = :id"), {"id": workspace_id, **values}
        )


@pytest.fixture
async def workspace_id(environment: ControlEnvironment) -> UUID:
    return await environment.create(start=False)


async def test_old_generations_go_and_the_newest_stay(
    environment: ControlEnvironment, workspace_id: UUID
) -> None:
    current = put(environment, key(workspace_id))
    await set_columns(environment, workspace_id, "archive_key = :key", key=current)
    generations = [put(environment, key(workspace_id)) for _ in range(5)]
    async with environment.replica() as plane:
        for old in generations[:2]:
            await gone(environment, old)
        await cycles(plane, more=2)
    assert all(is_there(environment, each) for each in [current, *generations[2:]])


async def test_nothing_goes_before_its_delay(environment: ControlEnvironment, workspace_id: UUID) -> None:
    debris = put(environment, key(workspace_id), meta=False)
    async with environment.replica(settings=fast_settings(GC_DELAY="3600")) as plane:
        await cycles(plane, more=3)
        assert is_there(environment, debris)
        async with environment.sessions() as session, session.begin():
            seen = await session.exec(typed_text("SELECT path FROM archive_orphans", Text()))
            assert list(seen) == [debris]
            await session.exec(
                text("UPDATE archive_orphans SET first_seen_at = first_seen_at - interval '2 hours'")
            )
        await gone(environment, debris)


async def test_an_operation_in_flight_or_failed_protects_its_objects(
    environment: ControlEnvironment, workspace_id: UUID
) -> None:
    op_id = uuid4()
    await set_columns(environment, workspace_id, "op_id = :op_id", op_id=op_id)
    mine = put(environment, key(workspace_id, op_id), meta=False)
    debris = put(environment, key(workspace_id), meta=False)
    async with environment.replica() as plane:
        await gone(environment, debris)
        await cycles(plane, more=2)
    assert is_there(environment, mine)


async def test_an_error_protects_everything(environment: ControlEnvironment, workspace_id: UUID) -> None:
    everything = [put(environment, key(workspace_id), meta=meta) for meta in (True, False) * 5]
    other = await environment.create("other", start=False)
    debris = put(environment, key(other), meta=False)
    await set_columns(
        environment,
        workspace_id,
        "error_info = CAST(:error AS jsonb)",
        error=TERMINAL,
    )
    async with environment.replica() as plane:
        await gone(environment, debris)
        await cycles(plane, more=2)
    assert all(is_there(environment, each) for each in everything)


async def test_the_only_copy_is_kept(environment: ControlEnvironment, workspace_id: UUID) -> None:
    """An asynchronous failover lost the commit that named the archive; the volume is already gone."""
    only = put(environment, key(workspace_id))
    other = await environment.create("other", start=False)
    debris = put(environment, key(other), meta=False)
    async with environment.replica(settings=fast_settings(GC_KEEP_GENERATIONS="1")) as plane:
        await gone(environment, debris)
        await cycles(plane, more=2)
        async with environment.sessions() as session:
            gc = (await terms.read_terms(session))["coordinator:gc"]
        assert gc.detail["only_copies"] == [only], "shown to the operator"
    assert is_there(environment, only)


async def test_deletion_lifts_all_protection(environment: ControlEnvironment, workspace_id: UUID) -> None:
    current = put(environment, key(workspace_id))
    await set_columns(environment, workspace_id, "archive_key = :key", key=current)
    await environment.intent(workspace_id, "delete")
    async with environment.replica():
        await gone(environment, current)
        await gone(environment, current + ".meta")


async def test_what_is_not_ours_is_left_alone(environment: ControlEnvironment, workspace_id: UUID) -> None:
    strangers = [
        put(environment, key(uuid4())),  # an old bucket under a fresh database
        put(environment, "somebody/elses/file.txt", meta=False),
        put(environment, f"{workspace_id}/notes.txt", meta=False),
        put(environment, key(workspace_id).upper(), meta=False),
    ]
    debris = put(environment, key(workspace_id), meta=False)
    async with environment.replica() as plane:
        await gone(environment, debris)
        await cycles(plane, more=2)
    assert all(is_there(environment, each) for each in strangers)


async def test_a_crash_between_meta_and_object_leaves_only_debris(
    environment: ControlEnvironment, workspace_id: UUID
) -> None:
    """The meta is gone, the object still there: found again, and removed after its own delay."""
    current = put(environment, key(workspace_id))
    await set_columns(environment, workspace_id, "archive_key = :key", key=current)
    half = put(environment, key(workspace_id), meta=False)
    async with environment.replica():
        await gone(environment, half)
    assert is_there(environment, current)


class Flaky(ArchiveStore):
    fail = False

    async def list_paths(self, prefix: str | None = None) -> AsyncIterator[list[ArchiveObject]]:
        async for page in super().list_paths(prefix):
            yield page
            if self.fail:
                raise EffectError(FailureCode.S3_ACCESS_ERROR, "the second page did not come")

    async def delete(self, paths: Sequence[ArchivePath]) -> None:
        assert not self.fail, "deleted on a partial view"
        await super().delete(paths)


async def test_a_failed_listing_skips_the_cycle(environment: ControlEnvironment, workspace_id: UUID) -> None:
    debris = put(environment, key(workspace_id), meta=False)
    store = Flaky.from_url(environment.archive_url)
    assert isinstance(store, Flaky)
    store.fail = True
    async with environment.replica(archives=store) as plane:

        async def failed() -> bool:
            return plane.loops["gc"].status.last_error is not None

        await until(failed, what="the cycle to fail")
        assert is_there(environment, debris)
        store.fail = False
        await gone(environment, debris)


def put_generation(
    environment: ControlEnvironment, workspace_id: UUID, packs: Sequence[str], *, op_id: UUID | None = None
) -> str:
    """A manifest in format 2 that names these packs, committed."""
    path = ArchivePath(workspace_id, op_id or uuid4(), uuid4().hex, 2)
    pieces, _ = encode_manifest(BlockWriter(), Tail(packs=[PackRef(name, 1) for name in packs]))
    put(environment, path.key)
    (environment.data_dir / "archives" / path.key).write_bytes(b"".join(pieces))
    return path.key


def put_pack(environment: ControlEnvironment, workspace_id: UUID, name: str | None = None) -> PackPath:
    pack = PackPath(workspace_id, name or (uuid4().hex + uuid4().hex))
    path = environment.data_dir / "archives" / pack.key
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x")
    return pack


async def test_packs_that_no_manifest_names_go(environment: ControlEnvironment, workspace_id: UUID) -> None:
    named, unnamed, index = (put_pack(environment, workspace_id, name) for name in (None, None, "index"))
    stranger = put_pack(environment, uuid4())
    current = put_generation(environment, workspace_id, [named.name])
    # As the archiving that made it left the row: its operation has ended, and op_id stays.
    await set_columns(
        environment, workspace_id, "archive_key = :key, op_id = :op_id", key=current, op_id=uuid4()
    )
    async with environment.replica() as plane:
        await gone(environment, unnamed.key)
        await cycles(plane, more=2)
    assert all(is_there(environment, each.key) for each in (named, index, stranger))


async def test_packs_go_after_the_generation_that_named_them(
    environment: ControlEnvironment, workspace_id: UUID
) -> None:
    old, shared = put_pack(environment, workspace_id), put_pack(environment, workspace_id)
    first = put_generation(environment, workspace_id, [old.name, shared.name])
    newer = [put_generation(environment, workspace_id, [shared.name]) for _ in range(3)]
    await set_columns(environment, workspace_id, "archive_key = :key", key=newer[-1])
    async with environment.replica() as plane:
        await gone(environment, first)
        await gone(environment, old.key)
        await cycles(plane, more=2)
    assert is_there(environment, shared.key)


async def test_a_deleted_workspace_leaves_no_packs(
    environment: ControlEnvironment, workspace_id: UUID
) -> None:
    pack, index = put_pack(environment, workspace_id), put_pack(environment, workspace_id, "index")
    key = put_generation(environment, workspace_id, [pack.name])
    await set_columns(environment, workspace_id, "archive_key = :key, deleted_at = now()", key=key)
    async with environment.replica():
        for each in (key, pack.key, index.key):
            await gone(environment, each)


@pytest.mark.parametrize("doubt", ["error", "damaged", "newer format", "current not listed"])
async def test_on_any_doubt_no_pack_of_the_workspace_goes(
    environment: ControlEnvironment, workspace_id: UUID, doubt: str
) -> None:
    unnamed = put_pack(environment, workspace_id)
    current = put_generation(environment, workspace_id, [])
    await set_columns(environment, workspace_id, "archive_key = :key", key=current)
    if doubt == "error":
        await set_columns(environment, workspace_id, "error_info = CAST(:error AS jsonb)", error=TERMINAL)
    elif doubt == "damaged":
        broken = put_generation(environment, workspace_id, [unnamed.name])
        (environment.data_dir / "archives" / broken).write_bytes(b"CHMANIF2 and no end")
    elif doubt == "newer format":
        put(environment, f"{workspace_id}/{uuid4()}/{uuid4().hex}/home.of-tomorrow", meta=False)
    else:
        (environment.data_dir / "archives" / current).unlink()
        (environment.data_dir / "archives" / f"{current}.meta").unlink()
    other = await environment.create("other", start=False)
    debris = put_pack(environment, other)
    async with environment.replica() as plane:
        await gone(environment, debris.key)
        await cycles(plane, more=3)
    assert is_there(environment, unnamed.key)


async def test_no_pack_goes_before_its_delay(environment: ControlEnvironment, workspace_id: UUID) -> None:
    unnamed = put_pack(environment, workspace_id)
    async with environment.replica(settings=fast_settings(GC_DELAY="3600")) as plane:
        await cycles(plane, more=3)
        assert is_there(environment, unnamed.key)
        async with environment.sessions() as session, session.begin():
            await session.exec(
                text("UPDATE archive_orphans SET first_seen_at = first_seen_at - interval '2 hours'")
            )
        await gone(environment, unnamed.key)


async def test_what_a_copy_needs_outlives_its_source_packs_included(
    environment: ControlEnvironment, workspace_id: UUID
) -> None:
    pack, unneeded = put_pack(environment, workspace_id), put_pack(environment, workspace_id)
    copied = put_generation(environment, workspace_id, [pack.name])
    current = put_generation(environment, workspace_id, [unneeded.name])
    await set_columns(environment, workspace_id, "archive_key = :key, deleted_at = now()", key=current)
    copy_id = await environment.create("copy", start=False)
    source = json.dumps({"workspace_id": str(workspace_id), "archive_key": copied})
    await set_columns(
        environment,
        copy_id,
        "archive_key = :key, copy_of = CAST(:source AS jsonb)",
        key=copied,
        source=source,
    )
    async with environment.replica() as plane:
        await gone(environment, current)
        await gone(environment, unneeded.key)
        await cycles(plane, more=2)
        assert is_there(environment, copied)
        assert is_there(environment, pack.key)
        await set_columns(environment, copy_id, "deleted_at = now()")
        await gone(environment, copied)
        await gone(environment, pack.key)


async def test_a_snapshot_is_kept_until_it_is_deleted(
    environment: ControlEnvironment, workspace_id: UUID
) -> None:
    named = put(environment, key(workspace_id))
    others = [put(environment, key(workspace_id)) for _ in range(2)]
    made = {
        "id": str(uuid4()),
        "name": "kept",
        "archive_key": named,
        "created_at": "2030-01-01T00:00:00+00:00",
    }
    await set_columns(
        environment,
        workspace_id,
        "archive_key = :key, snapshots = CAST(:made AS jsonb)",
        key=others[1],
        made=json.dumps([made]),
    )
    async with environment.replica(settings=fast_settings(GC_KEEP_GENERATIONS="1")) as plane:
        await cycles(plane, more=3)
        assert is_there(environment, named)
        await set_columns(environment, workspace_id, "snapshots = NULL")
        await gone(environment, named)
