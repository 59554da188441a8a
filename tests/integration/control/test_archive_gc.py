"""The GC removes what nobody protects, late; everything else stays."""

from collections.abc import AsyncIterator, Sequence
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text

from codehub.archives.keys import ArchivePath
from codehub.archives.store import ArchiveObject, ArchiveStore
from codehub.domain.errors import EffectError, FailureCode
from codehub.server.control_plane import ControlPlane
from codehub.store.cluster import terms
from tests.support.control import Cell, fast_settings
from tests.support.waiting import until


async def cycles(plane: ControlPlane, *, more: int) -> None:
    loop = plane.loops["gc"]
    target = loop.status.ticks + more

    async def reached() -> bool:
        return loop.status.ticks >= target

    await until(reached, what=f"{more} more cycles of the GC")


def put(cell: Cell, key: str, *, meta: bool = True) -> str:
    path = cell.data_dir / "archives" / key
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"not read by the GC")
    if meta:
        path.with_name(path.name + ".meta").write_bytes(b"{}")
    return key


def key(workspace_id: UUID, op_id: UUID | None = None) -> str:
    return ArchivePath(workspace_id, op_id or uuid4(), uuid4().hex).key


def is_there(cell: Cell, path: str) -> bool:
    return (cell.data_dir / "archives" / path).exists()


async def gone(cell: Cell, path: str) -> None:
    async def check() -> bool:
        return not is_there(cell, path)

    await until(check, what=f"{path} to be removed")


async def set_columns(cell: Cell, workspace_id: UUID, assignments: str, **values: object) -> None:
    async with cell.sessions() as session, session.begin():
        await session.execute(
            text(f"UPDATE workspaces SET {assignments} WHERE id = :id"), {"id": workspace_id, **values}
        )


@pytest.fixture
async def workspace_id(cell: Cell) -> UUID:
    return await cell.create(start=False)


async def test_old_generations_go_and_the_newest_stay(cell: Cell, workspace_id: UUID) -> None:
    current = put(cell, key(workspace_id))
    await set_columns(cell, workspace_id, "archive_key = :key", key=current)
    generations = [put(cell, key(workspace_id)) for _ in range(5)]
    async with cell.replica() as plane:
        for old in generations[:2]:
            await gone(cell, old)
        await cycles(plane, more=2)
    assert all(is_there(cell, each) for each in [current, *generations[2:]])


async def test_nothing_goes_before_its_delay(cell: Cell, workspace_id: UUID) -> None:
    debris = put(cell, key(workspace_id), meta=False)
    async with cell.replica(settings=fast_settings(GC_DELAY="3600")) as plane:
        await cycles(plane, more=3)
        assert is_there(cell, debris)
        async with cell.sessions() as session, session.begin():
            seen = (await session.execute(text("SELECT path FROM archive_orphans"))).scalars().all()
            assert seen == [debris]
            await session.execute(
                text("UPDATE archive_orphans SET first_seen_at = first_seen_at - interval '2 hours'")
            )
        await gone(cell, debris)


async def test_an_operation_in_flight_or_failed_protects_its_objects(cell: Cell, workspace_id: UUID) -> None:
    op_id = uuid4()
    await set_columns(cell, workspace_id, "op_id = :op_id", op_id=op_id)
    mine = put(cell, key(workspace_id, op_id), meta=False)
    debris = put(cell, key(workspace_id), meta=False)
    async with cell.replica() as plane:
        await gone(cell, debris)
        await cycles(plane, more=2)
    assert is_there(cell, mine)


async def test_an_error_protects_everything(cell: Cell, workspace_id: UUID) -> None:
    everything = [put(cell, key(workspace_id), meta=meta) for meta in (True, False) * 5]
    other = await cell.create("other", start=False)
    debris = put(cell, key(other), meta=False)
    await set_columns(
        cell,
        workspace_id,
        "error_info = CAST(:error AS jsonb)",
        error='{"reason": "DataLost", "message": "m", "is_terminal": true, "operation": "NONE",'
        ' "error_count": 1, "context": {}, "occurred_at": "2026-01-01T00:00:00+00:00"}',
    )
    async with cell.replica() as plane:
        await gone(cell, debris)
        await cycles(plane, more=2)
    assert all(is_there(cell, each) for each in everything)


async def test_the_only_copy_is_kept(cell: Cell, workspace_id: UUID) -> None:
    """An asynchronous failover lost the commit that named the archive; the volume is already gone."""
    only = put(cell, key(workspace_id))
    other = await cell.create("other", start=False)
    debris = put(cell, key(other), meta=False)
    async with cell.replica(settings=fast_settings(GC_KEEP_GENERATIONS="1")) as plane:
        await gone(cell, debris)
        await cycles(plane, more=2)
        async with cell.sessions() as session:
            gc = (await terms.read_terms(session))["coordinator:gc"]
        assert gc.detail["only_copies"] == [only], "shown to the operator"
    assert is_there(cell, only)


async def test_deletion_lifts_all_protection(cell: Cell, workspace_id: UUID) -> None:
    current = put(cell, key(workspace_id))
    await set_columns(cell, workspace_id, "archive_key = :key", key=current)
    await cell.wish(workspace_id, "delete")
    async with cell.replica():
        await gone(cell, current)
        await gone(cell, current + ".meta")


async def test_what_is_not_ours_is_left_alone(cell: Cell, workspace_id: UUID) -> None:
    strangers = [
        put(cell, key(uuid4())),  # an old bucket under a fresh database
        put(cell, "somebody/elses/file.txt", meta=False),
        put(cell, f"{workspace_id}/notes.txt", meta=False),
        put(cell, key(workspace_id).upper(), meta=False),
    ]
    debris = put(cell, key(workspace_id), meta=False)
    async with cell.replica() as plane:
        await gone(cell, debris)
        await cycles(plane, more=2)
    assert all(is_there(cell, each) for each in strangers)


async def test_a_crash_between_meta_and_object_leaves_only_debris(cell: Cell, workspace_id: UUID) -> None:
    """The meta is gone, the object still there: found again, and removed after its own delay."""
    current = put(cell, key(workspace_id))
    await set_columns(cell, workspace_id, "archive_key = :key", key=current)
    half = put(cell, key(workspace_id), meta=False)
    async with cell.replica():
        await gone(cell, half)
    assert is_there(cell, current)


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


async def test_a_failed_listing_skips_the_cycle(cell: Cell, workspace_id: UUID) -> None:
    debris = put(cell, key(workspace_id), meta=False)
    store = Flaky.from_url(cell.archive_url)
    assert isinstance(store, Flaky)
    store.fail = True
    async with cell.replica(archives=store) as plane:

        async def failed() -> bool:
            return plane.loops["gc"].status.last_error is not None

        await until(failed, what="the cycle to fail")
        assert is_there(cell, debris)
        store.fail = False
        await gone(cell, debris)
