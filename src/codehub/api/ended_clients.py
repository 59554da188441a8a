"""Remember whose SSH session ended with its workspace.

An editor that lost its connection opens a new one by itself, for hours. It must not wake what was put to sleep. So
whoever had a session when the workspace was stopped, or lost it before, and comes back within ten minutes, is refused
unless the request says that a person asked for it. Every refused try starts the ten minutes anew: a window somebody
forgot never wakes anything.
"""

from uuid import UUID

from codehub.kit.cache import TtlCache
from codehub.signals.rate_limit import RateLimit

COMES_BACK_SECONDS = 600.0
MAX_OWN = 4096
_UNLIMITED = 1_000_000


class EndedClients:
    """Clients whose session ended with its workspace.

    Shared by all replicas through Redis; while it is away, each replica knows those whose session it ended itself.
    """

    def __init__(self, counted: RateLimit) -> None:
        self._counted = counted
        self._own: TtlCache[str, bool] = TtlCache(size=MAX_OWN, ttl=COMES_BACK_SECONDS)

    async def remember(self, workspace_id: UUID, client: str) -> None:
        self._own.put(_key(workspace_id, client), True)
        await self._counted.hit(
            _key(workspace_id, client), limit=_UNLIMITED, window_seconds=COMES_BACK_SECONDS
        )

    async def comes_back(self, workspace_id: UUID, client: str) -> bool:
        """Whether this client's session ended with the workspace, or it was refused, within ten minutes."""
        wait = await self._counted.peek(
            _key(workspace_id, client), limit=1, window_seconds=COMES_BACK_SECONDS
        )
        if wait is None and self._own.get(_key(workspace_id, client)) is None:
            return False
        await self.remember(workspace_id, client)
        return True

    async def forget(self, workspace_id: UUID, client: str) -> None:
        self._own.forget(_key(workspace_id, client))
        await self._counted.reset(_key(workspace_id, client))


def _key(workspace_id: UUID, client: str) -> str:
    return f"ssh ended {workspace_id} {client}"
