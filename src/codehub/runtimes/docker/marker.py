"""Check that this engine holds our homes, by a marker volume.

An engine whose disk was not mounted, or another engine because of a wrong address, looks exactly like "every
home is gone". So an installation marks its engine with an empty volume. Where the mark is missing nothing is
reported and nothing is created: the engine counts as away.
"""

import asyncio
from collections.abc import Iterable

from codehub.domain.errors import EffectError, FailureCode
from codehub.runtimes.docker.engine import CallRefused, Conflict, DockerEngine, Document, NotFound
from codehub.runtimes.docker.names import INSTALLATION, ROLE, Names, ObjectRole


class Marker:
    def __init__(self, engine: DockerEngine, names: Names) -> None:
        self._engine = engine
        self._names = names
        self._may_create = True
        self._creating = asyncio.Lock()

    def forbid_creation(self) -> None:
        """Never mark an engine: homes exist, so an unmarked one is the wrong engine."""
        self._may_create = False

    async def require(self, *, among: Iterable[Document] = ()) -> None:
        """Raise ``DOCKER_API_ERROR`` on an engine that is not ours; mark it on first use.

        ``among``: volumes that were just listed. If the mark is one of them, no further call is made.
        """
        listed = any(each.get("Name") == self._names.marker for each in among)
        if not listed and not await self._is_there():
            async with self._creating:
                if not await self._is_there():
                    await self._create()
        self._may_create = False  # it existed once: from now on its absence is an error

    async def _is_there(self) -> bool:
        try:
            await self._engine.volume(self._names.marker)
        except NotFound:
            return False
        return True

    async def _create(self) -> None:
        name = self._names.marker
        if not self._may_create:
            raise EffectError(
                FailureCode.DOCKER_API_ERROR,
                f"This Docker engine has no volume {name}, so it is not the one that holds the homes of this "
                "installation: its disk is not mounted, or DOCKER_HOST names another engine.",
                endpoint="docker",
            )
        labels = {INSTALLATION: self._names.installation_id, ROLE: ObjectRole.MARKER.value}
        try:
            await self._engine.create_volume(name, labels=labels, driver="local")
        except (CallRefused, Conflict, NotFound) as error:
            raise EffectError(FailureCode.DOCKER_API_ERROR, f"The engine takes no volume: {error}") from error
