"""Build and run the five coordinators of one process.

Each coordinator gets a database connection of its own and runs in a loop of its own. One that fails never stops
another.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Protocol

import structlog

from codehub.coordinators import archive_gc, observer, ttl_manager
from codehub.coordinators.archive_gc import ArchiveGc, ArchiveObjects
from codehub.coordinators.control_store import Connector, ControlStore
from codehub.coordinators.event_listener import EventListener
from codehub.coordinators.leadership import Leadership, lock_name, session_idle_seconds
from codehub.coordinators.loop import Coordinator, CoordinatorLoop, LoopTiming
from codehub.coordinators.observer import Observer
from codehub.coordinators.reconciler import tick
from codehub.coordinators.reconciler.actions import Actions, ArchiveCatalogue
from codehub.coordinators.reconciler.breakers import Backend, CircuitBreakers
from codehub.coordinators.reconciler.executions import Executions
from codehub.coordinators.reconciler.tick import OPERATIONS, Reconciler
from codehub.coordinators.reconciler.worker import Worker
from codehub.coordinators.ttl_manager import ActivitySource, BusySource, TtlManager
from codehub.coordinators.wake_signal import CoordinatorHints, WakeSignal
from codehub.domain.policy import ErrorPolicy
from codehub.domain.retention import Thinning
from codehub.domain.states import Operation
from codehub.domain.tick_plan import Lane
from codehub.domain.workspace import WorkspaceView
from codehub.kit.remote_clock import RemoteClock
from codehub.runtimes.base import ResourceLimits, Runtime, StorageProgress
from codehub.server.settings.tree import RuntimeKind, Settings
from codehub.server.shared_parts import running_limits, use_policy
from codehub.signals.hints import HintChannel, HintTarget
from codehub.signals.live import LivePublisher

log = structlog.get_logger(__name__)

STOP_SECONDS = 30.0
EVENTS_RETRY_SECONDS = 0.5
SLOTS, CLUSTER_SLOTS = 32, 128


class Archives(ArchiveCatalogue, ArchiveObjects, Protocol):
    """The archive store, as the coordinators use it."""


class Connectors(Protocol):
    """Makes the connector of each coordinator (``store/db/connections.coordinator_connector``)."""

    def __call__(self, *, application_name: str, settings: Mapping[str, str]) -> Connector: ...


@dataclass(frozen=True)
class CoordinatorDeps:
    """Dependencies of the coordinators. ``store`` is ``store/control`` but for the simulation."""

    store: ControlStore
    connectors: Connectors
    runtime: Runtime
    archives: Archives
    hints: HintChannel
    live: LivePublisher
    activity: ActivitySource
    busy: BusySource | None = None  # None: nothing is sampled
    limits: ResourceLimits = field(default_factory=ResourceLimits)
    env: Callable[[WorkspaceView], Mapping[str, str]] = lambda _ws: {}
    session_settings: Mapping[str, str] = field(default_factory=dict)


class ControlPlane:
    """The coordinator loops of one process."""

    def __init__(self, loops: list[CoordinatorLoop]) -> None:
        self.loops = {loop.coordinator.name: loop for loop in loops}
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._tasks = [
            asyncio.create_task(loop.run(), name=f"coordinator-{name}") for name, loop in self.loops.items()
        ]

    async def stop(self) -> None:
        """Stop all coordinators at once: end ticks and actions, release the locks."""
        for loop in self.loops.values():
            loop.stop()
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=STOP_SECONDS)
            for task in late:
                log.warning("coordinator does not end by itself", task=task.get_name())
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []

    def health(self) -> dict[str, Any]:
        """State of each coordinator in this process, for ``/health/coordinator``."""
        return {name: _health(loop) for name, loop in self.loops.items()}


def build_control_plane(settings: Settings, parts: CoordinatorDeps) -> ControlPlane:
    """Build all five coordinators with their loops; ``ControlPlane.start`` runs them."""
    builder = _Builder(settings, parts)
    loops = [
        builder.loop(HintTarget.OBSERVER, "observer", builder.observer),
        builder.loop(HintTarget.RECONCILER, "wc", builder.reconciler),
        builder.loop(HintTarget.TTL_MANAGER, "ttl", builder.ttl_manager),
        builder.loop(HintTarget.ARCHIVE_GC, "gc", builder.archive_gc),
        builder.loop(None, "events", builder.event_listener),
    ]
    return ControlPlane(loops)


class _Builder:
    def __init__(self, settings: Settings, parts: CoordinatorDeps) -> None:
        self._settings = settings
        self._parts = parts
        self._coordinator_hints = CoordinatorHints(parts.hints)

    def loop(
        self,
        target: HintTarget | None,
        name: str,
        build: Callable[[Leadership, WakeSignal], Coordinator],
    ) -> CoordinatorLoop:
        config = self._settings.coordinator
        idle_seconds = session_idle_seconds(config.verify_interval)
        connector = self._parts.connectors(
            application_name=f"codehub-{name}",
            settings={"idle_session_timeout": f"{idle_seconds * 1000:.0f}", **self._parts.session_settings},
        )
        leadership = Leadership(
            store=self._parts.store,
            connector=connector,
            name=lock_name(name, lock_id=config.lock_id),
            holder_id=config.node_id,
            idle_seconds=idle_seconds,
        )
        wake_signal = WakeSignal(self._parts.hints.subscribe(target) if target is not None else None)
        if target is not None:
            self._coordinator_hints.register(target, wake_signal, is_leader=lambda: leadership.is_leader)
        return CoordinatorLoop(
            build(leadership, wake_signal), leadership, store=self._parts.store, timing=self._timing(name)
        )

    def _timing(self, name: str) -> LoopTiming:
        config = self._settings.coordinator
        if name == "events":
            # Dashboards must be up to date two seconds after a restart of anything. The event listener does no work
            # at its start that would have to be spread over the replicas.
            return LoopTiming(
                retry_seconds=min(config.retry_interval, EVENTS_RETRY_SECONDS),
                verify_seconds=config.verify_interval,
                start_jitter_seconds=0.0,
            )
        return LoopTiming(
            retry_seconds=config.retry_interval,
            verify_seconds=config.verify_interval,
            start_jitter_seconds=config.start_jitter,
        )

    def observer(self, leadership: Leadership, wake_signal: WakeSignal) -> Coordinator:
        config = self._settings.observer
        return Observer(
            store=self._parts.store,
            leadership=leadership,
            runtime=self._parts.runtime,
            coordinator_hints=self._coordinator_hints,
            wake_signal=wake_signal,
            timing=observer.Timing(
                idle_seconds=config.interval,
                active_seconds=config.active_interval,
                batch_size=config.batch_size,
            ),
        )

    def reconciler(self, leadership: Leadership, wake_signal: WakeSignal) -> Coordinator:
        config = self._settings.reconciler
        policy = _policy(self._settings)
        clock = RemoteClock()
        breakers = CircuitBreakers(
            {Backend.RUNTIME: self._parts.runtime.probe, Backend.ARCHIVES: self._parts.archives.probe}
        )
        executions = Executions(
            slots={Lane.CONTROL: _control_slots(self._settings), Lane.STORAGE: config.max_storage_jobs},
            clock=clock.now,
            wake=wake_signal.set,
        )
        worker = Worker(
            store=self._parts.store,
            leadership=leadership,
            actions=Actions(
                self._parts.runtime,
                self._parts.archives,
                archive_format=self._settings.storage.archive_format,
            ),
            runtime=self._parts.runtime,
            executions=executions,
            breakers=breakers,
            coordinator_hints=self._coordinator_hints,
            clock=clock,
            policy=policy,
            on_progress=self._publish_progress,
            on_wait=self._publish_wait,
            on_outcome=_count,
            env=self._parts.env,
            limits=self._parts.limits,
        )
        return Reconciler(
            store=self._parts.store,
            leadership=leadership,
            worker=worker,
            executions=executions,
            breakers=breakers,
            wake_signal=wake_signal,
            clock=clock,
            policy=policy,
            timing=tick.Timing(
                idle_seconds=config.interval,
                active_seconds=config.active_interval,
                converge_seconds=config.converge_interval,
                batch_size=config.batch_size,
            ),
            observer_lock=lock_name("observer", lock_id=self._settings.coordinator.lock_id),
        )

    def ttl_manager(self, leadership: Leadership, wake_signal: WakeSignal) -> Coordinator:
        return TtlManager(
            store=self._parts.store,
            leadership=leadership,
            activity=self._parts.activity,
            coordinator_hints=self._coordinator_hints,
            wake_signal=wake_signal,
            timing=ttl_manager.Timing(
                interval_seconds=self._settings.ttl.interval, batch_size=self._settings.ttl.batch_size
            ),
            policy=use_policy(self._settings),
            limits=running_limits(self._settings),
            busy=self._parts.busy,
            on_busy_changed=self._parts.live.publish_activity,
            on_moved=self._parts.live.publish_activity,
        )

    def archive_gc(self, leadership: Leadership, wake_signal: WakeSignal) -> Coordinator:
        config = self._settings.gc
        return ArchiveGc(
            store=self._parts.store,
            leadership=leadership,
            archives=self._parts.archives,
            wake_signal=wake_signal,
            timing=archive_gc.Timing(
                interval_seconds=config.interval,
                delay=timedelta(seconds=config.delay),
                keep_generations=config.keep_generations,
                thinning=Thinning(days=config.keep_daily, weeks=config.keep_weekly),
            ),
        )

    def event_listener(self, leadership: Leadership, wake_signal: WakeSignal) -> Coordinator:
        return EventListener(
            store=self._parts.store,
            leadership=leadership,
            live=self._parts.live,
            coordinator_hints=self._coordinator_hints,
            wake_signal=wake_signal,
        )

    async def _publish_progress(self, ws: WorkspaceView, progress: StorageProgress) -> None:
        percent = None
        if progress.total_bytes:
            percent = min(100, int(100 * progress.done_bytes / progress.total_bytes))
        await self._parts.live.publish_progress(
            ws.id,
            ws.owner_id,
            {
                "operation": ws.operation.value,
                "percent": percent,
                "done_bytes": progress.done_bytes,
                "total_bytes": progress.total_bytes,
                "files": progress.files,
            },
        )

    async def _publish_wait(self, ws: WorkspaceView, reason: str | None) -> None:
        await self._parts.live.publish_wait(ws.id, ws.owner_id, operation=ws.operation.value, reason=reason)


def _count(operation: Operation, outcome: str) -> None:
    OPERATIONS.labels(operation.value, outcome).inc()


def _control_slots(settings: Settings) -> int:
    """How many actions run at once. On a cluster most of one is waiting, for a node perhaps for minutes."""
    usual = CLUSTER_SLOTS if settings.runtime.kind is RuntimeKind.KUBERNETES else SLOTS
    return settings.reconciler.max_concurrent or usual


def _policy(settings: Settings) -> ErrorPolicy:
    config = settings.reconciler
    seconds = {
        Operation.PROVISIONING: config.provisioning_timeout,
        Operation.STARTING: config.starting_timeout,
        Operation.STOPPING: config.stopping_timeout,
        Operation.DELETING: config.deleting_timeout,
        Operation.RESTORING: config.restoring_timeout,
        Operation.ARCHIVING: config.archiving_timeout,
    }
    return ErrorPolicy(
        max_retries=config.max_retries,
        retry_backoff=timedelta(seconds=config.retry_backoff),
        timeouts={operation: timedelta(seconds=timeout) for operation, timeout in seconds.items()},
    )


def _health(loop: CoordinatorLoop) -> dict[str, Any]:
    term = loop.leadership.term
    return {
        "is_leader": term is not None,
        "acquired_at": term.acquired_at if term else None,
        "epoch": term.epoch if term else None,
        "last_tick_at": loop.status.last_tick_at,
        "last_error": loop.status.last_error,
    }
