"""The private network of an installation: workspaces reach the outside, and not each other.

A bridge with inter-container traffic switched off and no published ports. CodeHub on the engine's machine
reaches containers by their address on the bridge.

Docker neither keeps network names unique nor bears two of one name, and two CodeHubs that start at once may
both find none. So no name is used twice, the label tells whose it is, the oldest counts, and whoever made
another removes it. Dying before that leaves an unused network, nothing worse.
"""

import asyncio
from contextlib import suppress
from uuid import uuid4

from codehub.domain.errors import EffectError, FailureCode
from codehub.runtimes.docker.engine import Conflict, Document, Engine, NotFound, Refused
from codehub.runtimes.docker.names import INSTALLATION, Names

NO_TRAFFIC_BETWEEN = {"com.docker.network.bridge.enable_icc": "false"}


class PrivateNetwork:
    """``given``: an operator's own network, by name; it is used and never made."""

    def __init__(self, engine: Engine, names: Names, *, given: str | None = None) -> None:
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
        found = await self._engine.networks({"label": [f"{INSTALLATION}={self._names.installation_id}"]})
        return str(min(found, key=_age)["Id"]) if found else None

    async def _make(self) -> str:
        config = {
            "Name": f"codehub-{self._names.installation_id}-{uuid4().hex[:8]}",
            "Driver": "bridge",
            "Options": NO_TRAFFIC_BETWEEN,
            "Labels": {INSTALLATION: self._names.installation_id},
        }
        try:
            made = await self._engine.create_network(config)
        except (Refused, NotFound, Conflict) as error:
            raise EffectError(
                FailureCode.CONTAINER_START_FAILED, f"The private network could not be made: {error}"
            ) from error
        oldest = await self._find() or made
        if made != oldest:
            with suppress(NotFound, Conflict, Refused):
                await self._engine.remove_network(made)
        return oldest


def _age(network: Document) -> tuple[str, str]:
    return str(network.get("Created", "")), str(network["Id"])
