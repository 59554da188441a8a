"""What happens when an action fails, an engine is away, or what exists is not what the row says."""

import asyncio
import json
import os
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import text

from codehub.archives.store import ArchiveStore
from codehub.domain.endings import Ending
from codehub.domain.errors import EffectError, FailureCode, Reason
from codehub.domain.states import HealthStatus, ObservedStatus, Operation
from codehub.domain.workspace import WorkspaceView
from codehub.runtimes.base import (
    FencingToken,
    Observation,
    OnWait,
    ProgressCallback,
    ResourceLimits,
    StorageJob,
    StorageKind,
    StorageResult,
)
from codehub.runtimes.local.runtime import LocalRuntime
from tests.integration.control.engines import on_both
from tests.integration.control.test_walk import read_home, steps, write_home
from tests.support.control import IMAGES, JOB, ControlEnvironment, fast_settings
from tests.support.waiting import until


class Breakable(LocalRuntime):
    """The real local runtime behind switches: each names a fault and is off at first."""

    away = False
    fail_starts = 0
    swallow_starts = False
    starts = 0
    jobs: list[StorageKind]
    hold_jobs: asyncio.Event | None = None
    known_ending: Ending | None = None

    async def ending(self, workspace_id: UUID) -> Ending | None:
        return self.known_ending

    def _check(self) -> None:
        if self.away:
            raise EffectError(FailureCode.LOCAL_RUNTIME_ERROR, "the engine is away")

    async def probe(self) -> None:
        self._check()
        await super().probe()

    async def observe(self, ids: Collection[UUID] | None = None) -> Observation:
        self._check()
        return await super().observe(ids)

    async def provision(self, workspace_id: UUID, *, token: FencingToken, image_ref: str = "") -> None:
        self._check()
        await super().provision(workspace_id, token=token)

    async def stop(self, workspace_id: UUID, *, token: FencingToken) -> None:
        self._check()
        await super().stop(workspace_id, token=token)

    async def start(
        self,
        workspace_id: UUID,
        *,
        token: FencingToken,
        image_ref: str,
        env: Mapping[str, str],
        limits: ResourceLimits,
        on_wait: OnWait = None,
    ) -> None:
        self._check()
        self.starts += 1
        if self.fail_starts > 0:
            self.fail_starts -= 1
            raise EffectError(FailureCode.CONTAINER_START_FAILED, "told to fail")
        if not self.swallow_starts:
            await super().start(workspace_id, token=token, image_ref=image_ref, env=env, limits=limits)

    async def run_storage_job(
        self,
        job: StorageJob,
        *,
        token: FencingToken,
        on_progress: ProgressCallback,
        on_wait: OnWait = None,
    ) -> StorageResult:
        self._check()
        self.jobs.append(job.kind)
        if self.hold_jobs is not None:
            await self.hold_jobs.wait()
        return await super().run_storage_job(job, token=token, on_progress=on_progress)


@pytest.fixture
async def runtime(environment: ControlEnvironment) -> Breakable:
    runtime = Breakable(
        environment.data_dir,
        environment.installation_id,
        IMAGES,
        job_command=JOB,
        archive_url=environment.archive_url,
        stop_grace_seconds=2,
    )
    runtime.jobs = []
    await runtime.prepare()
    return runtime


async def test_a_failed_start_is_retried_and_then_forgotten(
    environment: ControlEnvironment, runtime: Breakable
) -> None:
    runtime.fail_starts = 2
    async with environment.replica(runtime=runtime):
        workspace_id = await environment.create()
        ws = await environment.until_status(workspace_id, "running")
        assert runtime.starts == 3
        assert (ws.error_count, ws.error_info) == (0, None)
        assert steps(await environment.history(workspace_id)) == ["PROVISIONING", "STARTING"]


async def test_the_fourth_failure_is_terminal_and_a_person_recovers(
    environment: ControlEnvironment, runtime: Breakable
) -> None:
    runtime.fail_starts = 1000
    async with environment.replica(runtime=runtime):
        workspace_id = await environment.create()
        ws = await environment.until_status(workspace_id, "error")
        assert ws.error_info is not None
        assert ws.error_info.reason is Reason.RETRY_EXCEEDED
        assert runtime.starts == 4
        assert ws.operation is Operation.NONE
        assert ws.op_id is not None, "kept: it protects a half-made archive"

        async def in_error() -> bool:
            return (await environment.view(workspace_id)).health_status is HealthStatus.ERROR

        await until(in_error, what="health to turn")
        assert (await environment.view(workspace_id)).previous_status is ObservedStatus.STANDBY

        runtime.fail_starts = 0
        await environment.intent(workspace_id, "recover")
        recovered = await environment.until_status(workspace_id, "running")
        assert recovered.health_status is HealthStatus.OK


async def test_a_success_nobody_can_see_is_a_failure(
    environment: ControlEnvironment, runtime: Breakable
) -> None:
    runtime.swallow_starts = True
    async with environment.replica(runtime=runtime):
        workspace_id = await environment.create()

        async def counted() -> bool:
            return (await environment.view(workspace_id)).error_count > 0

        await until(counted, seconds=30, what="the mismatch to be counted")
        ws = await environment.view(workspace_id)
        assert ws.error_info is not None
        assert ws.error_info.reason is Reason.MISMATCH
        runtime.swallow_starts = False
        await environment.until_status(workspace_id, "running")


@on_both
async def test_an_image_that_dies_at_once_ends_in_words(environment: ControlEnvironment) -> None:
    async with environment.replica():
        workspace_id = await environment.create(image="failing")
        ws = await environment.until_status(workspace_id, "error", seconds=60)
        assert ws.error_info is not None
        assert "this command is wrong" in str(ws.error_info.context)


async def test_a_crash_loop_is_a_failing_start_with_the_last_words(environment: ControlEnvironment) -> None:
    async with environment.replica():
        workspace_id = await environment.create(image="crashing")
        ws = await environment.until_status(workspace_id, "error", seconds=60)
        assert ws.error_info is not None
        assert ws.error_info.operation is Operation.STARTING
        assert ws.error_info.reason is Reason.RETRY_EXCEEDED
        assert "going down" in str(ws.error_info.context)
        assert steps(await environment.history(workspace_id)).count("STARTING") == 4


@on_both
async def test_a_workspace_killed_later_is_simply_started_again(environment: ControlEnvironment) -> None:
    async with environment.replica() as plane:
        workspace_id = await environment.create()
        await environment.until_status(workspace_id, "running")
        await let_it_have_run_for_two_minutes(environment, workspace_id)
        before = await environment.view(workspace_id)
        await environment.kill_workspace(workspace_id)

        async def restarted() -> bool:
            ws = await environment.view(workspace_id)
            return ws.op_seq > before.op_seq and ws.observed_status is ObservedStatus.RUNNING

        await until(restarted, seconds=environment.patience, what="the workspace to be started again")
        ws = await environment.until_status(workspace_id, "running")
        assert ws.error_info is None
        assert ws.last_access_at > before.last_access_at, "nobody archives what just fell over"
        assert plane.loops["wc"].leadership.is_leader


async def test_memory_that_ran_out_later_is_told_and_it_is_started_again_at_once(
    environment: ControlEnvironment, runtime: Breakable
) -> None:
    runtime.known_ending = Ending(exit_code=137, out_of_memory=True, memory_limit_bytes=512 * 1024**2)
    async with environment.replica(runtime=runtime, settings=fast_settings(RECONCILER_RETRY_BACKOFF="600")):
        workspace_id = await environment.create()
        await environment.until_status(workspace_id, "running")
        await let_it_have_run_for_two_minutes(environment, workspace_id)
        before = await environment.view(workspace_id)
        await environment.kill_workspace(workspace_id)

        async def restarted() -> bool:
            ws = await environment.view(workspace_id)
            return ws.op_seq > before.op_seq and ws.observed_status is ObservedStatus.RUNNING

        await until(restarted, what="the workspace to be started again, with no pause")
        told = [entry.cause for entry in await environment.history(workspace_id) if entry.cause]
        assert any("ran out of memory and was killed (its limit is 512 MiB)" in cause for cause in told), told
        assert (await environment.view(workspace_id)).home.crashes == 1


async def let_it_have_run_for_two_minutes(environment: ControlEnvironment, workspace_id: UUID) -> None:
    """Longer than the crash window."""
    async with environment.sessions() as session, session.begin():
        await session.exec(
            text(
                "UPDATE workspaces SET home_ctx = home_ctx || jsonb_build_object("
                "'ran_at', (clock_timestamp() - interval '2 min')::text) WHERE id = :id"
            ),
            {"id": workspace_id},
        )


async def test_a_vanished_volume_is_never_replaced_by_an_empty_one(environment: ControlEnvironment) -> None:
    async with environment.replica():
        workspace_id = await environment.create(start=True)
        await environment.until_status(workspace_id, "running")
        await environment.intent(workspace_id, "stop")
        await environment.until_status(workspace_id, "standby")
        elsewhere = environment.data_dir / "unmounted"
        environment.home(workspace_id).rename(elsewhere)
        ws = await environment.until_status(workspace_id, "error")
        assert ws.error_info is not None
        assert ws.error_info.reason is Reason.MISMATCH
        await environment.intent(workspace_id, "start")
        assert not environment.home(workspace_id).exists()
        # The disk is back: a person recovers, and everything is as it was.
        elsewhere.rename(environment.home(workspace_id))

        async def seen() -> bool:
            return (await environment.view(workspace_id)).observed_status is ObservedStatus.STANDBY

        await until(seen, what="the volume to be seen again")
        await environment.intent(workspace_id, "recover")
        await environment.until_status(workspace_id, "running")


@on_both
async def test_a_damaged_archive_is_data_lost_and_nothing_is_deleted(environment: ControlEnvironment) -> None:
    async with environment.replica():
        workspace_id = await environment.create()
        await environment.until_status(workspace_id, "running")
        write_home(environment.home(workspace_id))
        await environment.intent(workspace_id, "archive")
        archived = await environment.until_status(workspace_id, "archived")
        assert archived.archive_key is not None
        stored = environment.data_dir / "archives" / archived.archive_key
        good = stored.read_bytes()
        stored.write_bytes(good[:-7] + bytes([good[-7] ^ 1]) + good[-6:])

        await environment.intent(workspace_id, "start")
        ws = await environment.until_status(workspace_id, "error")
        assert ws.error_info is not None
        assert ws.error_info.reason is Reason.DATA_LOST
        assert ws.archive_key == archived.archive_key
        assert not environment.home(workspace_id).exists()
        assert stored.exists()

        stored.write_bytes(good)
        await environment.intent(workspace_id, "recover")
        await environment.until_status(workspace_id, "running")


async def test_a_new_home_is_refused_where_an_archive_exists(environment: ControlEnvironment) -> None:
    """A database restored from an old backup forgot the key: an empty home would hide the real one."""
    async with environment.replica():
        workspace_id = await environment.create()
        await environment.until_status(workspace_id, "running")
        await environment.intent(workspace_id, "archive")
        await environment.until_status(workspace_id, "archived")
        async with environment.sessions() as session, session.begin():
            await session.exec(
                text("UPDATE workspaces SET archive_key = NULL WHERE id = :id"), {"id": workspace_id}
            )
        await environment.intent(workspace_id, "start")
        ws = await environment.until_status(workspace_id, "error")
        assert ws.error_info is not None
        assert ws.error_info.reason is Reason.MISMATCH
        assert not environment.home(workspace_id).exists()


async def test_an_engine_away_puts_nobody_into_error(
    environment: ControlEnvironment, runtime: Breakable
) -> None:
    """Fifty operations meet an engine that is away for longer than all retries together."""
    async with environment.replica(runtime=runtime) as plane:
        ids = [await environment.create(f"w{n}", start=False) for n in range(50)]
        runtime.away = True
        for workspace_id in ids:
            await environment.intent(workspace_id, "start")

        ticks = plane.loops["wc"].status.ticks

        async def many_ticks() -> bool:
            return plane.loops["wc"].status.ticks > ticks + 15

        await until(many_ticks, seconds=30, what="the reconciler to have tried for long")
        for workspace_id in ids:
            assert (await environment.view(workspace_id)).error_info is None
        runtime.away = False
        for workspace_id in ids:
            await environment.until_status(workspace_id, "running", seconds=60)


class AwayStore(ArchiveStore):
    away = False

    async def probe(self) -> None:
        if self.away:
            raise EffectError(FailureCode.S3_ACCESS_ERROR, "the store is away")
        await super().probe()


async def test_a_store_away_delays_everybody_and_fails_none(
    environment: ControlEnvironment, runtime: Breakable
) -> None:
    """Fifty operations, to and from the store, meet one that is away for longer than all retries together."""
    store = AwayStore.from_url(environment.archive_url)
    assert isinstance(store, AwayStore)
    async with environment.replica(runtime=runtime, archives=store) as plane:
        ids = [await environment.create(f"w{n}") for n in range(50)]
        kept: dict[UUID, dict[str, bytes]] = {}
        for workspace_id in ids:
            await environment.until_status(workspace_id, "running", seconds=60)
            kept[workspace_id] = write_home(environment.home(workspace_id))
        waking, leaving = ids[:10], ids[10:]
        for workspace_id in waking:
            await environment.intent(workspace_id, "archive")
        for workspace_id in waking:
            await environment.until_status(workspace_id, "archived", seconds=90)

        runtime.jobs.clear()
        store.away = True
        hidden = environment.data_dir / "archives-away"
        (environment.data_dir / "archives").rename(hidden)
        for workspace_id in leaving:
            await environment.intent(workspace_id, "archive")
        for workspace_id in waking:
            await environment.intent(workspace_id, "start")
        ticks = plane.loops["wc"].status.ticks

        async def tried_for_long() -> bool:
            return runtime.jobs != [] and plane.loops["wc"].status.ticks > ticks + 15

        await until(tried_for_long, seconds=60, what="the reconciler to have tried for long")
        for workspace_id in ids:
            assert (await environment.view(workspace_id)).error_info is None

        hidden.rename(environment.data_dir / "archives")
        store.away = False
        for workspace_id in leaving:
            await environment.until_status(workspace_id, "archived", seconds=120)
            assert not environment.home(workspace_id).exists()
        for workspace_id in (*waking, leaving[0]):
            await environment.intent(workspace_id, "start")
            await environment.until_status(workspace_id, "running", seconds=120)
            assert read_home(environment.home(workspace_id)) == kept[workspace_id]


async def test_a_hanging_operation_times_out_and_its_job_is_gone(
    environment: ControlEnvironment, runtime: Breakable
) -> None:
    settings = fast_settings(RECONCILER_ARCHIVING_TIMEOUT="3")
    runtime.hold_jobs = asyncio.Event()
    async with environment.replica(runtime=runtime, settings=settings):
        workspace_id = await environment.create()
        await environment.until_status(workspace_id, "running")
        kept = write_home(environment.home(workspace_id))
        await environment.intent(workspace_id, "archive")
        ws = await until_given_up(environment, workspace_id)
        assert ws.error_info is not None
        assert ws.error_info.reason is Reason.TIMEOUT
        assert read_home(environment.home(workspace_id)) == kept
        runtime.hold_jobs = None
        await environment.intent(workspace_id, "recover")
        await environment.until_status(workspace_id, "archived")


async def until_given_up(environment: ControlEnvironment, workspace_id: UUID) -> WorkspaceView:
    async def given_up() -> bool:
        return (await environment.view(workspace_id)).archiving_given_up

    await until(given_up, seconds=30, what="archiving to be given up")
    return await environment.view(workspace_id)


def put_in_the_way(home: Path) -> Path:
    """Folders too deep for any program to open by path: for root too, who may read every file."""
    where = os.open(home, os.O_RDONLY)
    for _ in range(21):
        os.mkdir("d" * 200, dir_fd=where)
        below = os.open("d" * 200, os.O_RDONLY, dir_fd=where)
        os.close(where)
        where = below
    os.close(where)
    return home / ("d" * 200)


async def test_a_file_in_the_way_keeps_nobody_from_their_home(
    environment: ControlEnvironment, runtime: Breakable
) -> None:
    """Archiving is given up at once, with the name; the home can be started, mended, and then archived."""
    async with environment.replica(runtime=runtime):
        workspace_id = await environment.create()
        await environment.until_status(workspace_id, "running")
        in_the_way = put_in_the_way(environment.home(workspace_id))
        await environment.intent(workspace_id, "archive")
        ws = await until_given_up(environment, workspace_id)
        assert (await environment.record(workspace_id)).status == "standby"
        assert ws.error_info is not None
        assert not ws.error_info.is_terminal
        assert ws.error_info.context["files"][0].startswith("dddd")
        assert runtime.jobs == [StorageKind.ARCHIVE]  # once: trying again mends nothing
        assert any(
            "could not be archived" in (event.cause or "")
            for event in await environment.history(workspace_id)
        )

        await environment.intent(workspace_id, "start")
        ws = await environment.until_status(workspace_id, "running")
        assert (ws.error_info, ws.archiving_given_up) == (None, False)
        shutil.rmtree(in_the_way)
        await environment.intent(workspace_id, "archive")
        await environment.until_status(workspace_id, "archived")


async def test_a_start_during_an_archiving_that_fails_is_met_after_it(
    environment: ControlEnvironment, runtime: Breakable
) -> None:
    runtime.hold_jobs = asyncio.Event()
    async with environment.replica(runtime=runtime):
        workspace_id = await environment.create()
        await environment.until_status(workspace_id, "running")
        put_in_the_way(environment.home(workspace_id))
        await environment.intent(workspace_id, "archive")
        await environment.until_status(workspace_id, "archiving")
        await environment.intent(workspace_id, "start")
        runtime.hold_jobs.set()
        await environment.until_status(workspace_id, "running")


async def test_asking_again_tries_again_at_once(environment: ControlEnvironment, runtime: Breakable) -> None:
    async with environment.replica(runtime=runtime):
        workspace_id = await environment.create()
        await environment.until_status(workspace_id, "running")
        in_the_way = put_in_the_way(environment.home(workspace_id))
        await environment.intent(workspace_id, "archive")
        await until_given_up(environment, workspace_id)
        shutil.rmtree(in_the_way)
        await environment.intent(workspace_id, "archive")
        await environment.until_status(workspace_id, "archived")


async def test_an_archive_of_an_older_release_comes_back_and_the_timeline_says_so(
    environment: ControlEnvironment,
) -> None:
    async with environment.replica():
        workspace_id = await environment.create()
        await environment.until_status(workspace_id, "running")
        kept = write_home(environment.home(workspace_id))
        await environment.intent(workspace_id, "archive")
        archived = await environment.until_status(workspace_id, "archived")
        assert archived.archive_sha256 is not None
        async with environment.sessions() as session, session.begin():
            await session.exec(text("UPDATE workspaces SET home_ctx = home_ctx - 'archive_sha256'"))
        meta = environment.data_dir / "archives" / f"{archived.archive_key}.meta"
        old = json.loads(meta.read_bytes())
        for name in ("workspace_id", "op_id", "installation_id"):
            del old[name]
        meta.write_text(json.dumps(old))
        await environment.intent(workspace_id, "start")
        await environment.until_status(workspace_id, "running")
        assert read_home(environment.home(workspace_id)) == kept
        assert "not bound" in " ".join(event.cause or "" for event in await environment.history(workspace_id))


async def test_a_half_restored_volume_is_neither_started_on_nor_archived(
    environment: ControlEnvironment, runtime: Breakable
) -> None:
    async with environment.replica(runtime=runtime):
        workspace_id = await environment.create()
        await environment.until_status(workspace_id, "running")
        kept = write_home(environment.home(workspace_id))
        await environment.intent(workspace_id, "archive")
        archived = await environment.until_status(workspace_id, "archived")
        # A volume that some terminal error left behind: it exists, but no marker vouches for it.
        environment.home(workspace_id).mkdir()
        (environment.home(workspace_id) / "half").write_text("not the home")
        runtime.jobs.clear()
        await environment.intent(workspace_id, "start")
        await environment.until_status(workspace_id, "running")
        assert runtime.jobs == [StorageKind.RESTORE]
        assert read_home(environment.home(workspace_id)) == kept

        # The same, but archived is wanted: it is only removed, and the archive stays what it was.
        await environment.intent(workspace_id, "archive")
        again = await environment.until_status(workspace_id, "archived")
        assert again.archive_key != archived.archive_key
        shutil.copytree(environment.data_dir / "archives", environment.data_dir / "copy")
        environment.home(workspace_id).mkdir()
        runtime.jobs.clear()

        async def removed() -> bool:
            return not environment.home(workspace_id).exists()

        await until(removed, what="the untrusted volume to be removed")
        final = await environment.until_status(workspace_id, "archived")
        assert final.archive_key == again.archive_key
        assert runtime.jobs == []


async def test_the_same_archive_is_restored_twice(environment: ControlEnvironment) -> None:
    async with environment.replica():
        workspace_id = await environment.create()
        await environment.until_status(workspace_id, "running")
        kept = write_home(environment.home(workspace_id))
        await environment.intent(workspace_id, "archive")
        archived = await environment.until_status(workspace_id, "archived")
        await environment.intent(workspace_id, "start")
        await environment.until_status(workspace_id, "running")
        await environment.intent(workspace_id, "stop")
        await environment.until_status(workspace_id, "standby")
        # The volume vanishes; a person accepts that; the archive it came from is restored once more.
        shutil.rmtree(environment.home(workspace_id))
        await environment.until_status(workspace_id, "error")

        async def answered() -> bool:
            return (await environment.view(workspace_id)).health_status is HealthStatus.ERROR

        await until(answered, what="the Observer to answer the error")
        await environment.intent(workspace_id, "recover")
        await environment.intent(workspace_id, "start")
        ws: Any = await environment.until_status(workspace_id, "running")
        assert ws.home.restore_marker == archived.archive_key
        assert read_home(environment.home(workspace_id)) == kept


async def test_a_database_older_than_the_runtime_catches_up(environment: ControlEnvironment) -> None:
    """A backup was restored: the runtime has seen higher tokens than this database ever gave."""
    async with environment.replica():
        workspace_id = await environment.create()
        await environment.until_status(workspace_id, "running")
        async with environment.sessions() as session, session.begin():
            await session.exec(text("UPDATE workspaces SET op_seq = 0 WHERE id = :id"), {"id": workspace_id})
        await environment.intent(workspace_id, "stop")
        ws = await environment.until_status(workspace_id, "standby")
        assert ws.error_info is None
        await environment.intent(workspace_id, "start")
        await environment.until_status(workspace_id, "running")


async def test_recover_leaves_an_error_alone_that_is_still_retried(
    environment: ControlEnvironment, runtime: Breakable
) -> None:
    runtime.fail_starts = 1000
    settings = fast_settings(RECONCILER_RETRY_BACKOFF="3600")
    async with environment.replica(runtime=runtime, settings=settings):
        workspace_id = await environment.create()

        async def counted() -> bool:
            return (await environment.view(workspace_id)).error_count == 1

        await until(counted)
        await environment.intent(workspace_id, "recover")
        ws = await environment.view(workspace_id)
        assert ws.error_count == 1
        assert ws.error_info is not None
