"""What the proxy remembers of the directory, for two seconds at most.

On the hot path a request asks memory alone. A miss loads once, however many requests wait for it. A change
reported by the directory throws the entry away *and* forgets a load under way: that load may have read the
old state, so whoever asks after the change starts a new one, and the old result is not kept.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar
from uuid import UUID

from codehub.kit.tasks import hear_out
from codehub.proxy.interfaces import Credential, Directory, Principal, WorkspaceTarget
from codehub.proxy.metrics import Metrics
from codehub.proxy.settings import Address, ProxySettings

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


Recollection = tuple[Principal, WorkspaceTarget, float]  # and until when


class TtlCache(Generic[K, V]):
    """A map whose entries age, filled by at most one load per key."""

    def __init__(self, *, ttl: float, miss_ttl: float, size: int, metrics: Metrics) -> None:
        self._ttl = ttl
        self._miss_ttl = miss_ttl
        self._size = size
        self._metrics = metrics
        self._entries: dict[K, tuple[V | None, float]] = {}
        self._loads: dict[K, asyncio.Task[V | None]] = {}

    def peek(self, key: K, now: float) -> tuple[V | None, float] | None:
        """What is known and until when; None: nothing is."""
        entry = self._entries.get(key)
        return entry if entry is not None and entry[1] > now else None

    async def get(self, key: K, load: Callable[[], Awaitable[V | None]]) -> V | None:
        now = asyncio.get_running_loop().time()
        known = self.peek(key, now)
        if known is not None:
            return known[0]
        task = self._loads.get(key)
        if task is None:
            self._metrics.cache_misses_total += 1
            task = asyncio.create_task(self._load(key, load))
            task.add_done_callback(hear_out)
            self._loads[key] = task
        # Shielded: the first to ask may leave while others still wait.
        return await asyncio.shield(task)

    def forget(self, key: K) -> None:
        self._entries.pop(key, None)
        self._loads.pop(key, None)

    def forget_where(self, test: Callable[[V | None], bool]) -> None:
        for key in [key for key, (value, _) in self._entries.items() if test(value)]:
            del self._entries[key]
        self._loads.clear()  # what they will bring is unknown

    def clear(self) -> None:
        self._entries.clear()
        self._loads.clear()

    def expire(self, now: float) -> None:
        for key in [key for key, entry in self._entries.items() if entry[1] <= now]:
            del self._entries[key]

    async def _load(self, key: K, load: Callable[[], Awaitable[V | None]]) -> V | None:
        me = asyncio.current_task()
        try:
            value = await load()
        except BaseException:
            if self._loads.get(key) is me:
                del self._loads[key]
            raise
        if self._loads.get(key) is me:
            del self._loads[key]
            if len(self._entries) >= self._size:
                self._entries.clear()
            now = asyncio.get_running_loop().time()
            self._entries[key] = (value, now + (self._miss_ttl if value is None else self._ttl))
        return value


class DirectoryCache:
    """The directory behind its memory. Is itself the ``ChangeListener`` the directory reports to."""

    def __init__(self, directory: Directory, settings: ProxySettings, metrics: Metrics) -> None:
        self._directory = directory
        self.people_changed = False  # since somebody last looked: open sockets are judged again then
        self.generation = 0  # grows with every change: whoever remembers something notes it
        self._principals: TtlCache[str, Principal] = _memory(settings, metrics)
        self._targets: TtlCache[UUID, WorkspaceTarget] = _memory(settings, metrics)
        self._ports: TtlCache[tuple[UUID, int], Address] = _memory(settings, metrics)
        directory.subscribe(self)

    def recall(self, key: str, workspace_id: UUID, now: float) -> Recollection | None:
        """Person and workspace, if memory knows both (and neither is "nobody")."""
        who, where = self._principals.peek(key, now), self._targets.peek(workspace_id, now)
        if who is None or where is None or who[0] is None or where[0] is None:
            return None
        return who[0], where[0], min(who[1], where[1])

    async def principal(self, key: str, credential: Credential) -> Principal | None:
        return await self._principals.get(key, lambda: self._directory.resolve(credential))

    async def target(self, workspace_id: UUID) -> WorkspaceTarget | None:
        return await self._targets.get(workspace_id, lambda: self._directory.workspace(workspace_id))

    def recall_port(self, workspace_id: UUID, port: int, now: float) -> tuple[Address | None, float]:
        """Where the port is reached and until when that counts, if memory knows it."""
        return self._ports.peek((workspace_id, port), now) or (None, now)

    async def port_address(self, workspace_id: UUID, port: int) -> Address | None:
        return await self._ports.get(
            (workspace_id, port), lambda: self._directory.port_address(workspace_id, port)
        )

    def expire(self, now: float) -> None:
        self._principals.expire(now)
        self._targets.expire(now)
        self._ports.expire(now)

    def workspace_changed(self, workspace_id: UUID) -> None:
        self.generation += 1
        self._targets.forget(workspace_id)
        self._ports.clear()  # few are ever in it

    def user_changed(self, user_id: UUID) -> None:
        self.generation += 1
        self.people_changed = True
        self._principals.forget_where(lambda principal: principal is None or principal.user_id == user_id)

    def everything_changed(self) -> None:
        self.generation += 1
        self.people_changed = True
        self._principals.clear()
        self._targets.clear()
        self._ports.clear()


def _memory(settings: ProxySettings, metrics: Metrics) -> "TtlCache[K, V]":
    return TtlCache(
        ttl=settings.cache_ttl,
        miss_ttl=settings.miss_ttl,
        size=settings.cache_entries,
        metrics=metrics,
    )
