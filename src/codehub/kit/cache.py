"""A bounded cache whose entries expire: the one used by every cache of a process.

Nothing here loads: combine it with ``single_flight`` or ``batching``. Losing any entry at any moment must be
harmless to the caller.
"""

import math
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from typing import Generic, NamedTuple, TypeVar

from codehub.kit.clock import monotonic

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Entry(NamedTuple, Generic[V]):
    """A cached value and when it expires."""

    value: V
    until: float


class TtlCache(Generic[K, V]):
    """Keep ``size`` entries for ``ttl`` seconds each; evict the oldest write first.

    ``clock`` is the process's monotonic clock. Callers on a hot path pass the ``now`` they already have.
    """

    def __init__(self, *, size: int, ttl: float = math.inf, clock: Callable[[], float] | None = None) -> None:
        self._size = size
        self._ttl = ttl
        self._clock = clock or monotonic
        self._entries: OrderedDict[K, Entry[V]] = OrderedDict()

    def peek(self, key: K, now: float | None = None) -> Entry[V] | None:
        """Return the entry with its expiry; None if absent or expired.

        A cached ``None`` is an entry like others.
        """
        entry = self._entries.get(key)
        if entry is None or entry.until <= (self._clock() if now is None else now):
            return None
        return entry

    def get(self, key: K) -> V | None:
        """Return the value; None if absent or expired."""
        entry = self.peek(key)
        return entry.value if entry is not None else None

    def put(self, key: K, value: V, *, ttl: float | None = None) -> None:
        """Write an entry, evicting the oldest ones beyond ``size``."""
        self._entries[key] = Entry(value, self._clock() + (self._ttl if ttl is None else ttl))
        self._entries.move_to_end(key)
        while len(self._entries) > self._size:
            self._entries.popitem(last=False)

    def forget(self, key: K) -> None:
        self._entries.pop(key, None)

    def forget_where(self, test: Callable[[V], bool]) -> None:
        for key in [key for key, entry in self._entries.items() if test(entry.value)]:
            del self._entries[key]

    def clear(self) -> None:
        self._entries.clear()

    def expire(self, now: float | None = None) -> None:
        """Free expired entries. Never needed for correctness."""
        moment = self._clock() if now is None else now
        for key in [key for key, entry in self._entries.items() if entry.until <= moment]:
            del self._entries[key]

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[K]:
        return iter(self._entries)
