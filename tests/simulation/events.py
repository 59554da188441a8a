"""Faults that come by themselves, not at a call: a machine dies, the database restarts, a disk is away."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from codehub.domain.states import ContainerState, DesiredState, ObservedStatus, Operation
from tests.simulation.chaos import NO_NODE

if TYPE_CHECKING:
    from tests.simulation.environment import SimulatedEnvironment


class Events:
    def __init__(self, environment: "SimulatedEnvironment") -> None:
        self._environment = environment
        self._chaos = environment.chaos
        self._kinds: dict[str, Callable[[], None]] = {
            "crash": self._crash,
            "freeze": self._freeze,
            "restart": self._restart,
            "database": self._database_away,
            "engine": self._engine_away,
            "store": self._store_away,
            "container": self._container_dies,
            "unmount": self._disk_away,
            "unreadable": self._unreadable,
            "clock": self._clock_jumps,
            "rollback": self._roll_back,
            NO_NODE: self._no_node,
        }

    async def happen(self, seconds: float) -> None:
        """One of this seed's kinds every few seconds, until the time is over."""
        loop = asyncio.get_running_loop()
        ends = loop.time() + seconds
        mine = [kind for kind in self._kinds if self._chaos.has(kind)]
        while loop.time() < ends:
            await asyncio.sleep(self._chaos.random.uniform(1, 8))
            if mine:
                kind = self._chaos.random.choice(mine)
                self._chaos.say(f"event: {kind}")
                self._kinds[kind]()
            self._environment.later(self._chaos.random.uniform(0.5, 4), self._environment.restart_the_dead)

    def end(self) -> None:
        """Calm: what is away comes back, and nothing new goes wrong."""
        environment = self._environment
        self._chaos.on = False
        environment.database.up, environment.engine.away, environment.archives.away = True, False, False
        environment.engine.no_node = None
        for place in environment.engine.places.values():
            place.unreadable = False
        for workspace_id in list(environment.engine.hidden):
            environment.remount(workspace_id)
        for process in environment.processes:
            environment.loop.thaw(process)
        environment.restart_the_dead()

    def _any_replica(self) -> str:
        return self._chaos.random.choice(sorted(self._environment.planes))

    def _crash(self) -> None:
        self._environment.kill(self._environment.planes[self._any_replica()][0])

    def _freeze(self) -> None:
        process = self._environment.planes[self._any_replica()][0]
        if not process.halted:
            self._environment.freeze(process, self._chaos.random.choice((3.0, 12.0, 40.0)))

    def _restart(self) -> None:
        asyncio.ensure_future(self._environment.stop_gracefully(self._any_replica()))  # noqa: RUF006

    def _database_away(self) -> None:
        database = self._environment.database
        database.up = False
        database.end_all()
        self._environment.later(self._chaos.random.uniform(0.1, 8), lambda: setattr(database, "up", True))

    def _engine_away(self) -> None:
        engine = self._environment.engine
        engine.away = True
        self._environment.later(self._chaos.random.uniform(1, 30), lambda: setattr(engine, "away", False))

    def _no_node(self) -> None:
        """Full, until the autoscaler has brought a node, or for longer than anybody waits."""
        engine = self._environment.engine
        engine.no_node = "0/3 nodes are available: insufficient memory"
        self._environment.later(
            self._chaos.random.choice((5, 45, 90)), lambda: setattr(engine, "no_node", None)
        )

    def _store_away(self) -> None:
        archives = self._environment.archives
        archives.away = True
        self._environment.later(self._chaos.random.uniform(1, 30), lambda: setattr(archives, "away", False))

    def _container_dies(self) -> None:
        running = [
            each
            for each, place in self._environment.engine.places.items()
            if place.container is ContainerState.RUNNING
        ]
        if running:
            chosen = self._chaos.random.choice(running)
            self._environment.engine.kill_container(chosen)
            self._environment.guard.sighted(chosen)

    def _disk_away(self) -> None:
        places = list(self._environment.engine.places)
        if places:
            chosen = self._chaos.random.choice(places)
            self._environment.unmount(chosen)
            self._environment.later(self._chaos.random.uniform(1, 30), self._environment.remount, chosen)

    def _unreadable(self) -> None:
        places = list(self._environment.engine.places.values())
        if places:
            place = self._chaos.random.choice(places)
            place.unreadable = True
            self._environment.later(
                self._chaos.random.uniform(1, 15), lambda: setattr(place, "unreadable", False)
            )

    def _clock_jumps(self) -> None:
        process = self._environment.planes[self._any_replica()][0]
        process.boot_offset += self._chaos.random.choice((-40.0, 20.0, 300.0))

    def _roll_back(self) -> None:
        archived = [
            row.view
            for row in self._environment.rows()
            if row.view.archive_key is not None
            and row.view.operation is Operation.NONE
            and row.view.observed_status is ObservedStatus.PENDING
            and row.view.desired_state is DesiredState.PENDING
            and row.view.deleted_at is None
            and row.view.error_info is None
            and row.view.copy_of is None  # a copy never had an empty row: it began with an archive
        ]
        if archived:
            self._environment.roll_back(self._chaos.random.choice(archived).id)
