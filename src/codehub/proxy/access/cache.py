"""Cache the directory's answers for up to 2 s.

The hot path reads memory alone. A miss loads once, for all requests that wait for it (single flight). A change
reported by the directory drops the entry *and* detaches a load in flight: that load may have read the old
state, so its result is not stored, and a request after the change starts a new load.
"""

from collections.abc import Awaitable, Callable, Hashable
from functools import partial
from typing import Generic, TypeVar
from uuid import UUID

from codehub.kit.cache import TtlCache
from codehub.kit.single_flight import SingleFlight
from codehub.proxy.interfaces import Credential, Directory, Principal, WorkspaceTarget
from codehub.proxy.metrics import Metrics
from codehub.proxy.settings import ProxySettings, SocketAddress

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


CachedAccess = tuple[Principal, WorkspaceTarget, float]  # the float: valid until


class LoadedCache(Generic[K, V]):
    """A read-through cache with single flight.

    Misses (None) are stored for ``miss_ttl``.

    ``forget`` also detaches a load in flight: it may have read the state before the change.
    """

    def __init__(self, *, ttl: float, miss_ttl: float, size: int, metrics: Metrics) -> None:
        self._miss_ttl = miss_ttl
        self._metrics = metrics
        self._known: TtlCache[K, V | None] = TtlCache(size=size, ttl=ttl)
        # Not for speed: one query, however many requests miss the same entry (test_table.py).
        self._loads: SingleFlight[K, V | None] = SingleFlight()
        self._generation = 0  # grows when any key is forgotten: loads begun before are not stored
        self.peek = self._known.peek
        self.expire = self._known.expire

    async def get(self, key: K, load: Callable[[], Awaitable[V | None]]) -> V | None:
        """Return the cached value, or load it. Single flight per key."""
        known = self._known.peek(key)
        if known is not None:
            return known.value
        if not self._loads.is_running(key):
            self._metrics.cache_misses_total += 1
        return await self._loads.run(key, partial(self._load, key, load))

    def forget(self, key: K) -> None:
        """Drop one key and detach its load."""
        self._generation += 1
        self._known.forget(key)
        self._loads.forget(key)

    def forget_where(self, test: Callable[[V | None], bool]) -> None:
        """Drop the keys whose value passes ``test``, and detach all loads."""
        self._generation += 1
        self._known.forget_where(test)
        self._loads.forget_all()  # their results cannot be tested yet

    def clear(self) -> None:
        """Drop all keys and detach all loads."""
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
    """A read-through cache of the directory, and the ``ChangeListener`` it reports to."""

    def __init__(self, directory: Directory, settings: ProxySettings, metrics: Metrics) -> None:
        self._directory = directory
        self.on_change: Callable[[], None] = lambda: None  # the engine's: visitors are checked at once
        self.users_changed = False  # set here, reset by the engine: everything open is re-checked
        self._changed: set[UUID] = set()  # workspaces, since the engine last asked
        self.generation = 0  # grows with every change; cached admissions of another one are invalid
        self._principals: LoadedCache[str, Principal] = _new_cache(settings, metrics)
        self._targets: LoadedCache[UUID, WorkspaceTarget] = _new_cache(settings, metrics)
        self._ports: LoadedCache[tuple[UUID, int], SocketAddress] = _new_cache(settings, metrics)
        directory.subscribe(self)

    def recall(self, key: str, workspace_id: UUID, now: float) -> CachedAccess | None:
        """Return person and workspace if both are cached and exist. Never loads."""
        principal, target = self._principals.peek(key, now), self._targets.peek(workspace_id, now)
        if principal is None or target is None or principal[0] is None or target[0] is None:
            return None
        return principal[0], target[0], min(principal[1], target[1])

    def recall_target(self, workspace_id: UUID, now: float) -> tuple[WorkspaceTarget, float] | None:
        """Return a workspace if it is cached and exists, and until when. Never loads."""
        target = self._targets.peek(workspace_id, now)
        return None if target is None or target[0] is None else (target[0], target[1])

    async def principal(self, key: str, credential: Credential) -> Principal | None:
        return await self._principals.get(key, lambda: self._directory.resolve(credential))

    async def target(self, workspace_id: UUID) -> WorkspaceTarget | None:
        return await self._targets.get(workspace_id, lambda: self._directory.workspace(workspace_id))

    def recall_port(self, workspace_id: UUID, port: int, now: float) -> tuple[SocketAddress | None, float]:
        """Return a port's cached address and until when it is valid. Never loads."""
        return self._ports.peek((workspace_id, port), now) or (None, now)

    async def port_address(self, workspace_id: UUID, port: int) -> SocketAddress | None:
        return await self._ports.get(
            (workspace_id, port), lambda: self._directory.port_address(workspace_id, port)
        )

    def take_changed(self) -> set[UUID]:
        """Return the workspaces that changed since the last call."""
        changed, self._changed = self._changed, set()
        return changed

    def expire(self, now: float) -> None:
        self._principals.expire(now)
        self._targets.expire(now)
        self._ports.expire(now)

    def workspace_changed(self, workspace_id: UUID) -> None:
        self.generation += 1
        self._changed.add(workspace_id)
        self._targets.forget(workspace_id)
        self._ports.clear()  # it is small, so clear all instead of searching
        self.on_change()

    def user_changed(self, user_id: UUID) -> None:
        self.generation += 1
        self.users_changed = True
        self._principals.forget_where(lambda principal: principal is None or principal.user_id == user_id)
        # Shares end with the account of their owner.
        self._targets.forget_where(lambda target: target is not None and target.owner_id == user_id)
        self.on_change()

    def everything_changed(self) -> None:
        self.generation += 1
        self.users_changed = True
        self._principals.clear()
        self._targets.clear()
        self._ports.clear()
        self.on_change()


def _new_cache(settings: ProxySettings, metrics: Metrics) -> "LoadedCache[K, V]":
    return LoadedCache(
        ttl=settings.cache_ttl,
        miss_ttl=settings.miss_ttl,
        size=settings.cache_entries,
        metrics=metrics,
    )
