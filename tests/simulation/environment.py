"""One simulated installation: database, engine, archives, three replicas, and what happens to them."""

import asyncio
import random
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, cast
from uuid import UUID

from codehub.domain.errors import FailureCode
from codehub.domain.limits import RunningLimits
from codehub.domain.states import ContainerState, ObservedStatus
from codehub.domain.workspace import HomeContext, WorkspaceView
from codehub.server.control_plane import ControlPlane, CoordinatorDeps, build_control_plane
from codehub.server.settings.tree import Settings, load_settings
from codehub.signals.live import LivePublisher
from codehub.store.db.connections import IDLE_SESSION_SECONDS
from tests.simulation.chaos import Chaos
from tests.simulation.connection import Connector
from tests.simulation.database import Database
from tests.simulation.determinism import seeded
from tests.simulation.guard import IN_ALL, PER_USER, Guard
from tests.simulation.loop import Process, VirtualLoop
from tests.simulation.queries import WORKSPACES
from tests.simulation.queue_guard import QueueGuard
from tests.simulation.rows import Row, notice
from tests.simulation.runtime import Backend, Runtime, home_of
from tests.simulation.store import STORE
from tests.simulation.stores import Archives, Hints, Live, Presence, Workload, fresh_context

SETTINGS = load_settings(
    {
        "COORDINATOR_START_JITTER": "1",
        "COORDINATOR_RETRY_INTERVAL": "1",
        "OBSERVER_INTERVAL": "8",
        "OBSERVER_ACTIVE_INTERVAL": "2",
        "RECONCILER_INTERVAL": "8",
        "RECONCILER_ACTIVE_INTERVAL": "2",
        "RECONCILER_CONVERGE_INTERVAL": "3",
        "RECONCILER_RETRY_BACKOFF": "2",
        "RECONCILER_MAX_CONCURRENT": "3",
        "RECONCILER_PROVISIONING_TIMEOUT": "30",
        "RECONCILER_STARTING_TIMEOUT": "30",
        "RECONCILER_STOPPING_TIMEOUT": "30",
        "RECONCILER_DELETING_TIMEOUT": "30",
        "RECONCILER_ARCHIVING_TIMEOUT": "40",
        "RECONCILER_RESTORING_TIMEOUT": "40",
        "TTL_INTERVAL": "15",
        "LIMITS_MAX_RUNNING_PER_USER": str(PER_USER),
        "LIMITS_MAX_RUNNING_GLOBAL": str(IN_ALL),
        "GC_INTERVAL": "15",
        "GC_DELAY": "30",
        "GC_KEEP_GENERATIONS": "1",
    }
)
"""As in production, only sooner: a run is a few minutes long."""

REPLICAS = ("a", "b", "c")
ENDS_OFTEN = 0.2
RESTART_SECONDS = 5.0


class SimulatedEnvironment:
    def __init__(
        self,
        seed: int,
        loop: VirtualLoop,
        *,
        trace: list[str] | None = None,
        focus: Mapping[str, float] | None = None,
    ) -> None:
        self.seed = seed
        self.loop = loop
        self.trace = trace
        self.chaos = Chaos(seed, focus=focus, trace=self.say if trace is not None else None)
        self.chaos.kill, self.chaos.freeze, self.chaos.cancel = self.kill, self.freeze, self.cancel
        self.random: random.Random = seeded(seed, 2)
        self.problems: list[str] = []
        self.broken = asyncio.Event()
        self.database = Database(chaos=self.chaos, loop=loop)
        self.database.problems = self.problems
        self.engine = Backend(self)
        self.archives = Archives(self, self.database)
        self.guard = Guard(self)
        self.queue_guard = QueueGuard(self, RunningLimits(PER_USER, IN_ALL))
        self.hints = Hints(self)
        self.live = Live(self)
        self.presence = Presence(self)
        self.workload = Workload(self)
        self.came_back: dict[UUID, datetime] = {}  # when the disk of a home was last mounted again
        self.processes: list[Process] = []
        self.planes: dict[str, tuple[Process, ControlPlane]] = {}
        self._lives = 0
        self._ending: list[asyncio.Task[None]] = []

    # What others ask and tell

    def say(self, what: str) -> None:
        if self.trace is not None:
            self.trace.append(f"{self.loop.time():9.3f}  {what}")

    def violate(self, what: str) -> None:
        self.say(f"BROKEN {what}")
        self.problems.append(what)
        self.broken.set()

    def later(self, seconds: float, do: Callable[..., object], *args: Any) -> None:
        """Of the environment, not of the process that happens to be running."""
        self.loop.call_later(seconds, do, *args, context=fresh_context())

    def rows(self) -> list[Row]:
        return list(self.database.scan(None, WORKSPACES))

    def find(self, workspace_id: UUID) -> WorkspaceView | None:
        row: Row | None = self.database.get(None, WORKSPACES, workspace_id)
        return row.view if row is not None else None

    def is_in_use(self, workspace_id: UUID) -> bool:
        """Connected or at work, and for long enough that everybody could know."""
        since = self.presence.connected.get(workspace_id)
        running = self.engine.place(workspace_id).container is ContainerState.RUNNING
        long = since is not None and self.loop.time() - since > 30.0
        long |= self.workload.works_for(workspace_id) > 30.0
        return running and long and not self.chaos.has("slow")

    # Replicas

    def start_replica(self, name: str) -> None:
        self._lives += 1
        process = Process(f"{name}{self._lives}")
        self.processes.append(process)
        self.planes[name] = (process, self.loop.in_process(process, lambda: self._start(process)))
        self.say(f"replica {process} starts")

    def _start(self, process: Process) -> ControlPlane:
        plane = build_control_plane(_settings(process.name), self._parts(process))
        plane.start()
        return plane

    def _parts(self, process: Process) -> CoordinatorDeps:
        return CoordinatorDeps(
            store=STORE,
            connectors=lambda **_: Connector(self.database),
            runtime=Runtime(self, process.name),
            archives=self.archives,
            hints=self.hints,
            live=cast(LivePublisher, self.live),
            activity=self.presence,
            busy=self.workload,
        )

    def kill(self, process: Process) -> None:
        """kill -9: the server notices the closed sockets a moment later."""
        self.loop.kill(process)
        self.later(0.1, lambda: self.database.end_all(process=process))

    def freeze(self, process: Process, seconds: float) -> None:
        """SIGSTOP: the server ends sessions that say nothing, in a transaction or not."""
        self.loop.freeze(process)
        frozen_at = process.frozen_at

        def end_sessions() -> None:
            if process.frozen_at == frozen_at:
                self.database.end_all(process=process)

        self.later(float(IDLE_SESSION_SECONDS), end_sessions)
        self.later(seconds, lambda: self.loop.thaw(process))

    def cancel(self, process: Process, what: str) -> bool:
        """The running task is cancelled at its await, as a time limit or the end of the process does it.

        An action is cut and its leader goes on. Anything else is only ever cancelled when the process ends
        and loses its patience, so the rest of the replica is asked to stop in the same moment: seldom,
        because replicas that always end get nowhere; never in a run of cut actions alone (``ACTIONS_CUT``).
        """
        task = asyncio.current_task()
        assert task is not None
        is_action = task.get_name().startswith("act-")
        if not is_action and (not self.chaos.has("cancel") or self.chaos.random.random() > ENDS_OFTEN):
            return False
        self.say(f"{process} is cancelled at {what}" + (", an action" if is_action else ""))
        task.cancel()
        if not is_action:
            name = next(name for name, (mine, _) in self.planes.items() if mine is process)
            self._ending.append(self.loop.create_task(self.stop_gracefully(name), context=fresh_context()))
        return True

    def restart_the_dead(self) -> None:
        for name, (process, _) in self.planes.items():
            if process.dead:
                self.start_replica(name)

    async def stop_gracefully(self, name: str) -> None:
        process, plane = self.planes[name]
        if not process.halted:
            self.say(f"replica {process} is asked to stop")
            task = self.loop.in_process(process, lambda: self.loop.create_task(plane.stop()))
            await asyncio.wait([task], timeout=60)
            self.loop.kill(process)
            self.database.end_all(process=process)
            # A stop may last into the calm, when nobody else looks for the dead any more.
            self.later(RESTART_SECONDS, self.restart_the_dead)

    # Things that happen to homes

    def edit(self, workspace_id: UUID) -> bool:
        """The person saves a file; possible while the container runs on its volume."""
        place = self.engine.places.get(workspace_id)
        if place is None or place.address is None or place.volume is None:
            return False
        place.volume = home_of(self.guard.edited(workspace_id))
        self.say(f"generation {self.guard.newest[workspace_id]} of {workspace_id} is saved")
        return True

    def unmount(self, workspace_id: UUID) -> None:
        place = self.engine.places.get(workspace_id)
        if place is None or place.volume is None or (place.job is not None and not place.job.task.done()):
            return
        if place.address is None:
            self.say(f"the disk of {workspace_id} is away")
            self.engine.hidden[workspace_id], place.volume = place.volume, None
            self.guard.sighted(workspace_id)

    def remount(self, workspace_id: UUID) -> None:
        hidden = self.engine.hidden.pop(workspace_id, None)
        place = self.engine.place(workspace_id)
        ws = self.find(workspace_id)
        if ws is not None and ws.observed_status is ObservedStatus.DELETED:
            return  # a volume of nobody: shown to the operator, never removed
        if hidden is not None and place.volume is None:
            self.say(f"the disk of {workspace_id} is back")
            place.volume = hidden
            self.came_back[workspace_id] = self.database.now()
            self.guard.sighted(workspace_id)

    def is_of_nobody(self, ws: WorkspaceView) -> bool:
        """Its disk came back after the look that found it deleted: shown to the operator, never removed."""
        back_at = self.came_back.get(ws.id)
        if ws.observed_status is not ObservedStatus.DELETED or ws.observed_at is None or back_at is None:
            return False
        return ws.observed_at < back_at

    def roll_back(self, workspace_id: UUID) -> None:
        """A backup of the database from before the first archive is restored: the row knows nothing of it."""
        row: Row | None = self.database.get(None, WORKSPACES, workspace_id)
        assert row is not None
        self.say(f"the row of {workspace_id} is restored from a backup")
        self.guard.rolled_back.add(workspace_id)
        self.guard.left.pop(workspace_id, None)
        old = row.changed(
            now=self.database.now(),
            archive_key=None,
            op_id=None,
            op_seq=0,
            home=HomeContext(),
            restore_from=None,
            snapshot_as=None,
            snapshots=(),
        )
        self.database.overwrite(WORKSPACES, workspace_id, old)
        self.database.notify(notice(row, old))
        self.guard.archives_changed(workspace_id)

    def is_lost_for_good(self, ws: WorkspaceView) -> bool:
        """Only somebody who looks into the store can help: there is an archive, and the row forgot it."""
        error = ws.error_info
        return error is not None and error.context.get("code") == FailureCode.ARCHIVE_UNEXPECTED


def _settings(node_id: str) -> Settings:
    own = SETTINGS.coordinator.model_copy(update={"node_id": node_id})
    return SETTINGS.model_copy(update={"coordinator": own})
