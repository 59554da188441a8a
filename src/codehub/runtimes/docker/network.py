"""Private network of an installation: workspaces cannot reach each other.

A bridge to the outside with inter-container traffic switched off and no published ports. CodeHub on the engine's
machine reaches containers by their address on the bridge.

Docker does not keep network names unique, fails on two of one name, and two CodeHubs that start at once may both
find none. So every name is unique, a label names the installation, and a process uses the network it created only
if no other exists by then: another process may be using that one already, however new it is. Otherwise it removes
its own, and lists again after a random pause. A crash before that leaves an unused network.
"""

import asyncio
import random
from contextlib import suppress
from uuid import uuid4

from codehub.domain.errors import EffectError, FailureCode
from codehub.kit.clock import monotonic
from codehub.runtimes.docker.engine import CallRefused, Conflict, DockerEngine, Document, NotFound
from codehub.runtimes.docker.names import INSTALLATION, Names

LOOK_AGAIN_SECONDS = 0.5
WAIT_SECONDS = 2.0
NO_TRAFFIC_BETWEEN = {"com.docker.network.bridge.enable_icc": "false"}


class PrivateNetwork:
    """The network of this installation.

    ``given``: name of an operator's own network, which is used and never created.
    """

    def __init__(self, engine: DockerEngine, names: Names, *, given: str | None = None) -> None:
        self._engine = engine
        self._names = names
        self._given = given
        self._known: str | None = None
        self._making = asyncio.Lock()

    async def get(self) -> str:
        """The network's id, or the given name. Created if there is none."""
        if self._given is not None:
            return self._given
        async with self._making:
            if self._known is None:
                self._known = await self._find() or await self._make()
            return self._known

    def forget(self) -> None:
        """Forget the network after it was removed: the next ``get`` lists again."""
        self._known = None

    async def _find(self) -> str | None:
        found = await self._all()
        return str(min(found, key=_age)["Id"]) if found else None

    async def _all(self) -> list[Document]:
        return await self._engine.networks({"label": [f"{INSTALLATION}={self._names.installation_id}"]})

    async def _make(self) -> str:
        while True:
            made = await self._create()
            if await self._is_alone(made):
                return made
            with suppress(NotFound, Conflict, CallRefused):
                await self._engine.remove_network(made)
            await asyncio.sleep(random.uniform(0, LOOK_AGAIN_SECONDS))
            if (found := await self._find()) is not None:
                return found

    async def _is_alone(self, made: str) -> bool:
        """Whether no other network exists.

        Of several created at once, all but the lowest id are removed at once; that one waits for them.
        """
        give_up_at = monotonic() + WAIT_SECONDS
        while others := [str(each["Id"]) for each in await self._all() if each["Id"] != made]:
            if min(others) < made or monotonic() > give_up_at:
                return False
            await asyncio.sleep(0.05)
        return True

    async def _create(self) -> str:
        config = {
            "Name": f"codehub-{self._names.installation_id}-{uuid4().hex[:8]}",
            "Driver": "bridge",
            "Options": NO_TRAFFIC_BETWEEN,
            "Labels": {INSTALLATION: self._names.installation_id},
        }
        try:
            return await self._engine.create_network(config)
        except (CallRefused, NotFound, Conflict) as error:
            raise EffectError(
                FailureCode.CONTAINER_START_FAILED, f"The private network could not be made: {error}"
            ) from error


def _age(network: Document) -> tuple[str, str]:
    return str(network.get("Created", "")), str(network["Id"])
