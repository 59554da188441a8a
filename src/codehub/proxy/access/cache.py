"""What the proxy remembers of the directory, for two seconds at most.

On the hot path a request asks memory alone. A miss loads once, however many requests wait for it. A change
reported by the directory throws the entry away *and* forgets a load under way: that load may have read the
old state, so whoever asks after the change starts a new one, and the old result is not kept.
"""

from collections.abc import Awaitable, Callable, Hashable
from functools import partial
from typing import Generic, TypeVar
from uuid import UUID

from codehub.kit.cache import TtlCache
from codehub.kit.single_flight import SingleFlight
from codehub.proxy.interfaces import Credential, Directory, Principal, WorkspaceTarget
from codehub.proxy.metrics import Metrics
from codehub.proxy.settings import Address, ProxySettings

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


Recollection = tuple[Principal, WorkspaceTarget, float]  # and until when


class LoadedCache(Generic[K, V]):
    """A cache that loads what it does not know, once however many ask. "Nobody" is remembered for less long.

    Forgetting a key also forgets the load under way: it may have read the state before the change.
    """

    def __init__(self, *, ttl: float, miss_ttl: float, size: int, metrics: Metrics) -> None:
        self._miss_ttl = miss_ttl
        self._metrics = metrics
        self._known: TtlCache[K, V | None] = TtlCache(size=size, ttl=ttl)
        self._loads: SingleFlight[K, V | None] = SingleFlight()
        self._generation = 0  # of all keys: what was read before one must not be kept after it
        self.peek = self._known.peek
        self.expire = self._known.expire

    async def get(self, key: K, load: Callable[[], Awaitable[V | None]]) -> V | None:
        known = self._known.peek(key)
        if known is not None:
            return known.value
        if not self._loads.is_running(key):
            self._metrics.cache_misses_total += 1
        return await self._loads.run(key, partial(self._load, key, load))

    def forget(self, key: K) -> None:
        self._generation += 1
        self._known.forget(key)
        self._loads.forget(key)

    def forget_where(self, test: Callable[[V | None], bool]) -> None:
        self._generation += 1
        self._known.forget_where(test)
        self._loads.forget_all()  # what they will bring is unknown

    def clear(self) -> None:
        self._generation += 1
        self._known.clear()
        self._loads.forget_all()

    async def _load(self, key: K, load: Callable[[], Awaitable[V | None]]) -> V | None:
        generation = self._generation
        value = await load()
        if generation == self._generation:
            self._known.put(key, value, ttl=self._miss_ttl if value is None else None)
        return value


class DirectoryCache:
    """The directory behind its memory. Is itself the ``ChangeListener`` the directory reports to."""

    def __init__(self, directory: Directory, settings: ProxySettings, metrics: Metrics) -> None:
        self._directory = directory
        self.users_changed = False  # since somebody last looked: open sockets are judged again then
        self.generation = 0  # grows with every change: whoever remembers something notes it
        self._principals: LoadedCache[str, Principal] = _memory(settings, metrics)
        self._targets: LoadedCache[UUID, WorkspaceTarget] = _memory(settings, metrics)
        self._ports: LoadedCache[tuple[UUID, int], Address] = _memory(settings, metrics)
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
        self.users_changed = True
        self._principals.forget_where(lambda principal: principal is None or principal.user_id == user_id)

    def everything_changed(self) -> None:
        self.generation += 1
        self.users_changed = True
        self._principals.clear()
        self._targets.clear()
        self._ports.clear()


def _memory(settings: ProxySettings, metrics: Metrics) -> "LoadedCache[K, V]":
    return LoadedCache(
        ttl=settings.cache_ttl,
        miss_ttl=settings.miss_ttl,
        size=settings.cache_entries,
        metrics=metrics,
    )
