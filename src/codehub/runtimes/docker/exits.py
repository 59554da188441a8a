"""Watch Docker's events for containers that ended or were paused.

The Observer gets a hint only: the Observer finds every ended container by itself, later. So a stream that breaks is
opened again, and missed events are not recovered.
"""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from uuid import UUID

import structlog

from codehub.domain.errors import EffectError
from codehub.kit.tasks import cancel_and_wait
from codehub.runtimes.docker.engine import CallRefused, Conflict, DockerEngine, NotFound
from codehub.runtimes.docker.names import INSTALLATION, ROLE, Names, ObjectRole, find_workspace

OnExit = Callable[[UUID], None]

log = structlog.get_logger(__name__)

_FIRST_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 30.0


class ExitWatch:
    def __init__(self, engine: DockerEngine, names: Names, on_exit: OnExit | None) -> None:
        self._engine = engine
        self._on_exit = on_exit
        self._filters = {
            "type": ["container"],
            "event": ["die", "pause", "unpause"],
            "label": [f"{INSTALLATION}={names.installation_id}", f"{ROLE}={ObjectRole.WORKSPACE.value}"],
        }
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        if self._on_exit is not None and self._task is None:
            self._task = asyncio.create_task(self._listen())

    async def close(self) -> None:
        if self._task is not None:
            await cancel_and_wait([self._task])

    async def _listen(self) -> None:
        pause = _FIRST_PAUSE_SECONDS
        while True:
            try:
                async with aclosing(self._engine.events(self._filters)) as events:
                    async for event in events:
                        pause = _FIRST_PAUSE_SECONDS
                        self._hint(event.get("Actor", {}).get("Attributes"))
            except (EffectError, NotFound, CallRefused, Conflict) as error:
                log.info("not hearing from the Docker engine", error=str(error), pause_seconds=pause)
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    def _hint(self, labels: dict[str, str] | None) -> None:
        workspace_id = find_workspace(labels)  # the engine reports labels among the attributes
        if workspace_id is not None and self._on_exit is not None:
            self._on_exit(workspace_id)
