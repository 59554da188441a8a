"""Local runtime: workspaces as processes of this machine. Fenced.

Needs neither a daemon nor root. ``LocalRuntime`` implements the protocol of ``runtimes/base``; each neighbouring
module holds one mechanism, and this one combines them. Every mutation takes the workspace's lock, admits the token,
reads what exists, acts and releases the lock. No state is kept between calls: several CodeHub processes on one
machine may use one data directory, and any of them may die anywhere.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Collection, Hashable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

from codehub.domain.endings import Ending
from codehub.domain.errors import EffectError, FailureCode
from codehub.kit.threads import wait_for_end
from codehub.runtimes.base import (
    Address,
    Endpoint,
    FencingToken,
    Observation,
    OnWait,
    ProgressCallback,
    ResourceLimits,
    StorageJob,
    StorageKind,
    StorageResult,
)
from codehub.runtimes.exec_stream import ExecStream, TerminalSize
from codehub.runtimes.local import execs, jobs, listen_addresses, locks, logs, volumes
from codehub.runtimes.local import images as image_rules
from codehub.runtimes.local.exits import ExitWatch, OnExit
from codehub.runtimes.local.ides.installations import Installations
from codehub.runtimes.local.layout import Layout, find_uuid
from codehub.runtimes.local.observe import LocalObservation, observe_files
from codehub.runtimes.local.port_owners import PortOwners
from codehub.runtimes.local.process_usage import list_running
from codehub.runtimes.local.processes import ProcessIdentity, boot_id, is_alive
from codehub.runtimes.local.records import ProcessRecord, UnreadableRecord, find_record
from codehub.runtimes.local.sandbox import Sandbox
from codehub.runtimes.local.sandbox_check import make_sandbox
from codehub.runtimes.local.spawn import WORKSPACE_VARIABLE, DetachedProcess
from codehub.runtimes.local.start import Order, Started, settle, start_process
from codehub.runtimes.local.stop import end_all
from codehub.runtimes.local.threads import Threads
from codehub.runtimes.local.trash import TrashSweeper
from codehub.runtimes.process_list import RunningProcess


class LocalRuntime:
    """The local runtime. Call ``prepare`` before the first use.

    ``on_exit`` is called, in the event loop, when a workspace that was observed running has ended.
    """

    def __init__(
        self,
        data_dir: Path,
        installation_id: str,
        images: Mapping[str, str],
        *,
        job_command: Sequence[str],
        archive_url: str,
        storage_options: Mapping[str, Any] | None = None,
        job_env: Mapping[str, str] | None = None,
        base_path: str = "/w/{id}/",
        stop_grace_seconds: float = 10.0,
        settle_seconds: float = 1.0,
        lock_timeout_seconds: float = 60.0,
        use_bubblewrap: bool = True,
        hidden: Sequence[Path] = (),
        on_exit: OnExit | None = None,
    ) -> None:
        self.ides = Installations(data_dir.absolute())
        self._layout = Layout(data_dir.absolute(), installation_id)
        self._images = dict(images)
        for name, command in self._images.items():
            image_rules.check_command(name, command)
        self._job_settings = jobs.JobSettings(
            command=tuple(job_command),
            archive_url=archive_url,
            storage_options=dict(storage_options or {}),
            env=dict(job_env or {}),
        )
        self._base_path = base_path
        self._stop_grace_seconds = stop_grace_seconds
        self._settle_seconds = settle_seconds
        self._lock_timeout = lock_timeout_seconds
        self._use_bubblewrap = use_bubblewrap
        self._hidden = tuple(hidden)
        self._sandbox: Sandbox | None = None
        self._threads = Threads()
        self._trash = TrashSweeper(self._layout)
        self._children: dict[int, DetachedProcess] = {}
        self._exits = ExitWatch(on_exit)
        self._owners = PortOwners()

    @property
    def name(self) -> str:
        return "local"

    @property
    def is_sandboxed(self) -> bool:
        """Whether workspaces cannot reach each other's homes and CodeHub's files."""
        return self._sandbox is not None

    async def prepare(self, *, create: bool = True) -> None:
        """Create or check the data directory, check the sandbox, empty the trash.

        ``create`` False: homes are known to exist, so an empty directory is a disk not mounted.
        """
        await self._threads.run(self._layout.prepare, create=create)
        if self._use_bubblewrap:
            self._sandbox = await self._threads.run(
                make_sandbox, self._layout.data_dir, (*self._hidden, self._layout.sockets)
            )
        self._trash.sweep_soon()

    async def close(self) -> None:
        """Close; workspaces keep running, and the next server empties the trash."""
        self._exits.close()
        self._threads.close()
        self._trash.close()
        await self.ides.close()

    async def probe(self) -> None:
        await self._threads.run(self._layout.check_writable)

    async def images(self) -> list[str]:
        return list(self._images)

    def uses_base_path(self, image_ref: str) -> bool:
        """Whether the image serves below ``/w/{id}/``; else the proxy removes the prefix."""
        return image_rules.uses_base_path(self._images, image_ref)

    async def observe(self, ids: Collection[UUID] | None = None) -> Observation:
        seen = await self._threads.run(self._observe_files, None if ids is None else frozenset(ids))
        self._exits.watch(seen.running)
        return seen.observation

    async def address(self, workspace_id: UUID) -> Endpoint | None:
        record = await self._threads.run(self._find_running, workspace_id)
        return None if record is None else record.endpoint

    async def port_address(self, workspace_id: UUID, port: int) -> Address | None:
        """Address of another port; None unless only this workspace listens there."""
        return await self._threads.run(self._find_port, workspace_id, port)

    async def listener(self, workspace_id: UUID, address: Address) -> Hashable | None:
        """The sockets that accept there; None unless all are this workspace's own."""
        return await self._threads.run(self._find_listener, workspace_id, address)

    async def ending(self, workspace_id: UUID) -> Ending | None:
        """None: an exit code is only known to the parent, and servers are restarted."""
        return None

    async def logs(self, workspace_id: UUID, *, follow: bool = False) -> AsyncIterator[bytes]:
        """Recent output; ``follow`` ends when the process has ended and all was read."""
        find_running = partial(self._find_running, workspace_id) if follow else None
        log = self._layout.output(workspace_id)
        async for piece in logs.pieces(self._threads, log, find_running):
            yield piece

    async def exec(
        self,
        workspace_id: UUID,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        tty: TerminalSize | None = None,
    ) -> ExecStream:
        await self._threads.run(self._layout.check)
        record = await self._threads.run(self._find_running, workspace_id)
        place = execs.Place(workspace_id, record, self._layout.volume(workspace_id), self.is_sandboxed)
        return await execs.run(self._threads, place, argv, env=env or {}, cwd=cwd, tty=tty)

    async def processes(self, workspace_id: UUID) -> list[RunningProcess]:
        return await self._threads.run(list_running, self._find_running, workspace_id, self.is_sandboxed)

    # Volumes

    async def provision(self, workspace_id: UUID, *, token: FencingToken, image_ref: str = "") -> None:
        async with self._acting(
            workspace_id, token, first=lambda _lock_fd: volumes.make_volume(self._layout, workspace_id)
        ):
            pass  # created, or it existed

    async def delete_volume(self, workspace_id: UUID, *, token: FencingToken) -> None:
        async with (
            self._acting(workspace_id, token) as lock_fd,
            self._without_job(workspace_id, token),
        ):
            if await self._threads.run(self._find_process, workspace_id) is not None:
                raise EffectError(FailureCode.VOLUME_IN_USE, "a container holds the volume")
            await self._threads.run(volumes.discard_volume, self._layout, workspace_id)
            await self._threads.run(volumes.forget_traces, self._layout, workspace_id, lock_fd=lock_fd)
        self._trash.sweep_soon()

    # Containers

    async def start(
        self,
        workspace_id: UUID,
        *,
        token: FencingToken,
        image_ref: str,
        env: Mapping[str, str],
        limits: ResourceLimits,
        on_wait: OnWait = None,  # while the IDE is being installed
    ) -> None:
        """Start the process. Limits are not enforced: without root no way of it lets an IDE work."""
        template = await image_rules.find_command(self._images, image_ref, self.ides, on_wait)
        async with (
            self._acting(workspace_id, token) as lock_fd,
            self._without_job(workspace_id, token),
        ):
            order = Order(
                workspace_id=workspace_id,
                template=template,
                token=token,
                env=env,
                base_path=self._base_path.format(id=workspace_id),
                sandbox=self._sandbox,
            )
            started = await self._threads.run(self._start_unless_recorded, order, lock_fd)
            if isinstance(started, ProcessRecord):
                if await self._threads.run(is_alive, started.identity):
                    return
                await self._end(workspace_id, started, grace_seconds=0)
                started = await self._threads.run(self._start_process, order, lock_fd)
            await self._require_running(order, started)

    async def stop(self, workspace_id: UUID, *, token: FencingToken) -> None:
        async with self._acting(workspace_id, token):
            await self._stop(workspace_id)

    async def remove_orphan_container(self, workspace_id: UUID) -> None:
        async with self._acting(workspace_id, None):
            await self._stop(workspace_id)

    async def stop_all(self) -> None:
        """Stop every workspace, for ``codehub up``. Desired states and tokens stay."""
        names = await self._threads.run(os.listdir, self._layout.processes)
        known = [workspace_id for name in names if (workspace_id := find_uuid(name)) is not None]
        outcomes = await asyncio.gather(*map(self.remove_orphan_container, known), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        await self._threads.run(listen_addresses.remove_socket_directory, self._layout)

    # Storage jobs

    async def run_storage_job(
        self, job: StorageJob, *, token: FencingToken, on_progress: ProgressCallback, on_wait: OnWait = None
    ) -> StorageResult:
        running = jobs.RunningJob()
        try:
            await self._begin_job(job, running, token=token)
            return await jobs.follow_job(
                self._layout, self._job_settings, job, running, on_progress=on_progress
            )
        except EffectError as error:
            highest = await self._threads.run(locks.highest_token, self._layout.lock(job.workspace_id))
            if token < highest:  # it did not fail: a newer token ended it
                raise locks.stale(token, highest) from error
            raise
        finally:
            ending = asyncio.ensure_future(
                jobs.end_job(self._layout, self._threads, job.workspace_id, running)
            )
            try:
                await asyncio.shield(ending)
            except asyncio.CancelledError:
                await wait_for_end(ending)
                raise

    async def kill_storage_job(self, workspace_id: UUID, *, token: FencingToken) -> None:
        async with self._acting(workspace_id, token), self._without_job(workspace_id, None):
            pass  # ended, if there was one

    async def _begin_job(self, job: StorageJob, running: jobs.RunningJob, *, token: FencingToken) -> None:
        """Start the job under the workspace's lock, until it holds its own: no start can come in between."""
        workspace_id = job.workspace_id
        async with self._acting(workspace_id, token):
            if await self._threads.run(self._find_running, workspace_id) is not None:
                raise EffectError(FailureCode.VOLUME_IN_USE, "the workspace is running")
            if job.kind is StorageKind.ARCHIVE and not await self._threads.run(
                volumes.has_volume, self._layout, workspace_id
            ):
                raise EffectError(FailureCode.VOLUME_MISSING, "there is no volume to archive")
            lock_fd = await jobs.take_job_lock(
                self._layout, self._threads, workspace_id, token=token, may_end_equal=True
            )
            try:
                begin = partial(jobs.start_job, self._layout, self._job_settings, job, running)
                await self._threads.run(begin, token=token, lock_fd=lock_fd)
            finally:
                os.close(lock_fd)  # from now on the job alone holds it

    # Helpers of the calls above

    def _acting(
        self,
        workspace_id: UUID,
        token: FencingToken | None,
        *,
        first: Callable[[int], None] = lambda _lock_fd: None,
    ) -> AbstractAsyncContextManager[int]:
        """Hold the workspace's lock, admit ``token`` if given, then run ``first``."""
        return locks.acting(
            self._layout, self._threads, workspace_id, token=token, timeout=self._lock_timeout, first=first
        )

    def _without_job(
        self, workspace_id: UUID, token: FencingToken | None
    ) -> AbstractAsyncContextManager[None]:
        return jobs.without_job(self._layout, self._threads, workspace_id, token=token)

    async def _require_running(self, order: Order, started: Started) -> None:
        exit_code = await settle(started, seconds=self._settle_seconds)
        if exit_code is None:
            return
        output = self._layout.output(order.workspace_id)
        lines = await self._threads.run(logs.last_lines, output, since=started.log_start)
        record = await self._threads.run(self._find_process, order.workspace_id)
        if record is not None:
            await self._end(order.workspace_id, record, grace_seconds=0)
        raise EffectError(
            FailureCode.CONTAINER_START_FAILED,
            f"the command ended at once with {exit_code}",
            exit_code=exit_code,
            output=lines,
        )

    def _start_unless_recorded(self, order: Order, lock_fd: int) -> Started | ProcessRecord:
        """Start the process, or return the last record; in one thread call, as mostly there is none."""
        if not volumes.has_volume(self._layout, order.workspace_id):
            raise EffectError(FailureCode.VOLUME_MISSING, "there is no volume to start on")
        return self._find_process(order.workspace_id) or self._start_process(order, lock_fd)

    def _start_process(self, order: Order, lock_fd: int) -> Started:
        started = start_process(self._layout, order, lock_fd=lock_fd)
        self._children[started.child.pid] = started.child  # here: a cancelled call needs it too
        return started

    async def _stop(self, workspace_id: UUID) -> None:
        try:
            record = find_record(self._layout.process(workspace_id))
        except UnreadableRecord:
            # The process is not known any more, but all that carry the mark of the workspace are found.
            nobody = ProcessIdentity(pid=0, start_ticks=0, boot_id=boot_id())
            record = ProcessRecord(nobody, FencingToken(0, 0))
        if record is not None:
            await self._end(workspace_id, record, grace_seconds=self._stop_grace_seconds)
        else:
            self._layout.process(workspace_id).unlink(missing_ok=True)  # an empty one

    async def _end(self, workspace_id: UUID, record: ProcessRecord, *, grace_seconds: float) -> None:
        """End all processes, then remove the record. A crash in between leaves the record, and this runs again."""
        marker = f"{WORKSPACE_VARIABLE}={workspace_id}"
        await end_all(self._threads, record.identity, marker, grace_seconds=grace_seconds)
        await self._threads.run(listen_addresses.remove_socket, self._layout, record)
        self._layout.process(workspace_id).unlink(missing_ok=True)
        self._reap()

    def _find_process(self, workspace_id: UUID) -> ProcessRecord | None:
        try:
            return find_record(self._layout.process(workspace_id))
        except UnreadableRecord as error:
            raise EffectError(FailureCode.LOCAL_RUNTIME_ERROR, f"process record: {error}") from error

    def _find_running(self, workspace_id: UUID) -> ProcessRecord | None:
        return record if (record := self._find_process(workspace_id)) and is_alive(record.identity) else None

    def _find_port(self, workspace_id: UUID, port: int) -> Address | None:
        record = self._find_running(workspace_id)
        host = self._owners.find_host(workspace_id, record.identity, port) if record is not None else None
        return None if host is None else Address(host, port)

    def _find_listener(self, workspace_id: UUID, address: Address) -> Hashable | None:
        if (record := self._find_running(workspace_id)) is None:
            self._owners.forget(workspace_id)
            return None
        return self._owners.find_listener(workspace_id, record.identity, host=address.host, port=address.port)

    def _observe_files(self, ids: Collection[UUID] | None) -> LocalObservation:
        self._reap()
        return observe_files(self._layout, ids)

    def _reap(self) -> None:
        """Reap ended children. Zombies count as dead anyway."""
        for pid, child in list(self._children.items()):
            if child.poll() is not None:
                self._children.pop(pid, None)
