"""The private network of an installation: workspaces reach the outside, and not each other.

A bridge with inter-container traffic switched off and no published ports. CodeHub on the engine's machine
reaches containers by their address on the bridge.

Docker neither keeps network names unique nor bears two of one name, and two CodeHubs that start at once may
both find none. So no name is used twice, the label tells whose it is, and whoever made one uses it only if
there is no other by then: somebody who saw nothing else may be using that already, however young it is.
Otherwise the own one goes, and after a moment of chance one looks again. Dying before that leaves an unused
network, nothing worse.
"""

import asyncio
import random
from contextlib import suppress
from uuid import uuid4

from codehub.domain.errors import EffectError, FailureCode
from codehub.kit.clock import monotonic
from codehub.runtimes.docker.engine import Conflict, DockerEngine, Document, NotFound, Refused
from codehub.runtimes.docker.names import INSTALLATION, Names

LOOK_AGAIN_SECONDS = 0.5
WAIT_SECONDS = 2.0
NO_TRAFFIC_BETWEEN = {"com.docker.network.bridge.enable_icc": "false"}


class PrivateNetwork:
    """``given``: an operator's own network, by name; it is used and never made."""

    def __init__(self, engine: DockerEngine, names: Names, *, given: str | None = None) -> None:
        self._engine = engine
        self._names = names
        self._given = given
        self._known: str | None = None
        self._making = asyncio.Lock()

    async def get(self) -> str:
        """Its id (or the given name). Made when there is none."""
        if self._given is not None:
            return self._given
        async with self._making:
            if self._known is None:
                self._known = await self._find() or await self._make()
            return self._known

    def forget(self) -> None:
        """Somebody removed it: look again next time."""
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
            with suppress(NotFound, Conflict, Refused):
                await self._engine.remove_network(made)
            await asyncio.sleep(random.uniform(0, LOOK_AGAIN_SECONDS))
            if (found := await self._find()) is not None:
                return found

    async def _is_alone(self, made: str) -> bool:
        """Of several made together all but the lowest go at once; that one waits for them a little."""
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
        except (Refused, NotFound, Conflict) as error:
            raise EffectError(
                FailureCode.CONTAINER_START_FAILED, f"The private network could not be made: {error}"
            ) from error


def _age(network: Document) -> tuple[str, str]:
    return str(network.get("Created", "")), str(network["Id"])
