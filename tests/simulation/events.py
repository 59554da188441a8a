"""Faults that come by themselves, not at a call: a machine dies, the database restarts, a disk is away."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from codehub.domain.states import ContainerState, DesiredState, ObservedStatus, Operation

if TYPE_CHECKING:
    from tests.simulation.world import World


class Events:
    def __init__(self, world: "World") -> None:
        self._world = world
        self._chaos = world.chaos
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
            self._world.later(self._chaos.random.uniform(0.5, 4), self._world.restart_the_dead)

    def end(self) -> None:
        """Calm: what is away comes back, and nothing new goes wrong."""
        world = self._world
        self._chaos.on = False
        world.database.up, world.engine.away, world.archives.away = True, False, False
        for place in world.engine.places.values():
            place.unreadable = False
        for workspace_id in list(world.engine.hidden):
            world.remount(workspace_id)
        for process in world.processes:
            world.loop.thaw(process)
        world.restart_the_dead()

    def _any_replica(self) -> str:
        return self._chaos.random.choice(sorted(self._world.planes))

    def _crash(self) -> None:
        self._world.kill(self._world.planes[self._any_replica()][0])

    def _freeze(self) -> None:
        process = self._world.planes[self._any_replica()][0]
        if not process.halted:
            self._world.freeze(process, self._chaos.random.choice((3.0, 12.0, 40.0)))

    def _restart(self) -> None:
        asyncio.ensure_future(self._world.stop_gracefully(self._any_replica()))  # noqa: RUF006

    def _database_away(self) -> None:
        database = self._world.database
        database.up = False
        database.end_all()
        self._world.later(self._chaos.random.uniform(0.1, 8), lambda: setattr(database, "up", True))

    def _engine_away(self) -> None:
        engine = self._world.engine
        engine.away = True
        self._world.later(self._chaos.random.uniform(1, 30), lambda: setattr(engine, "away", False))

    def _store_away(self) -> None:
        archives = self._world.archives
        archives.away = True
        self._world.later(self._chaos.random.uniform(1, 30), lambda: setattr(archives, "away", False))

    def _container_dies(self) -> None:
        running = [
            each
            for each, place in self._world.engine.places.items()
            if place.container is ContainerState.RUNNING
        ]
        if running:
            chosen = self._chaos.random.choice(running)
            self._world.engine.kill_container(chosen)
            self._world.guard.sighted(chosen)

    def _disk_away(self) -> None:
        places = list(self._world.engine.places)
        if places:
            chosen = self._chaos.random.choice(places)
            self._world.unmount(chosen)
            self._world.later(self._chaos.random.uniform(1, 30), self._world.remount, chosen)

    def _unreadable(self) -> None:
        places = list(self._world.engine.places.values())
        if places:
            place = self._chaos.random.choice(places)
            place.unreadable = True
            self._world.later(self._chaos.random.uniform(1, 15), lambda: setattr(place, "unreadable", False))

    def _clock_jumps(self) -> None:
        process = self._world.planes[self._any_replica()][0]
        process.boot_offset += self._chaos.random.choice((-40.0, 20.0, 300.0))

    def _roll_back(self) -> None:
        archived = [
            row.view
            for row in self._world.rows()
            if row.view.archive_key is not None
            and row.view.operation is Operation.NONE
            and row.view.observed_status is ObservedStatus.PENDING
            and row.view.desired_state is DesiredState.PENDING
            and row.view.deleted_at is None
            and row.view.error_info is None
        ]
        if archived:
            self._world.roll_back(self._chaos.random.choice(archived).id)
