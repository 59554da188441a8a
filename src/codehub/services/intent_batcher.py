"""Batch concurrent intents into one transaction.

Transactions that may take a running place wait for one lock (``store/workspaces/limits``), from the count to
the commit. Fifty simultaneous starts would each hold a connection while they wait there, all that the process
has, and pay a flush to disk each. So they wait here, holding nothing, and up to 20 at a time are applied in
one transaction.

Two things make that safe. **A refusal has written nothing**: services check first and write last, so
``LimitReached`` or ``NameTaken`` leaves the transaction unchanged for the others. And if the database itself
rejects one intent, the whole batch is rolled back, and each is tried again by itself: only the one that
caused the failure fails. A process that dies in here leaves nothing, and no caller got a result.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar, cast
from uuid import UUID

from codehub.domain.errors import CodeHubError
from codehub.kit.batching import Batched
from codehub.store.db.session import Session, Sessions
from codehub.store.errors import is_outage

T = TypeVar("T")

AT_ONCE = 20
"""Intents per transaction. All replicas share the lock: it is released after a few dozen statements."""

TIMEOUT_SECONDS = 10.0


class _Intent:
    """One submitted change. Compared by identity: equal ones stay separate."""

    def __init__(self, apply: Callable[[Session], Awaitable[object]], row: UUID | None) -> None:
        self.apply = apply
        self.row = row
        self.is_withdrawn = False


_Outcome = tuple[object, Exception | None]
_WITHDRAWN: _Outcome = (None, None)


class IntentBatcher:
    """The batcher of one process. Replicas are serialised by the database's lock."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        # Pays for: POST → ready, 50 at once.
        self._batches: Batched[_Intent, _Outcome] = Batched(self._apply_all, max_batch=AT_ONCE, max_loads=1)

    async def submit(self, apply: Callable[[Session], Awaitable[T]], *, row: UUID | None = None) -> T:
        """Apply one service call in a batch; return its result once committed.

        Raises what ``apply`` raises; it must refuse before it writes. ``row``: the workspace it will lock;
        None: it creates one, which no other transaction can know of yet. ``TimeoutError`` after 10 s: the
        database is stuck. An intent that had not begun by then is not applied later either.
        """
        intent = _Intent(apply, row)
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                outcome = await self._batches.get(intent)
        finally:
            intent.is_withdrawn = True
        assert outcome is not None
        granted, refusal = outcome
        if refusal is not None:
            raise refusal
        return cast(T, granted)

    async def _apply_all(self, intents: Sequence[_Intent]) -> Mapping[_Intent, _Outcome]:
        try:
            return await self._apply(intents)
        except Exception as error:
            if len(intents) == 1 or not _is_caused_by_one(error):
                raise
        outcomes: dict[_Intent, _Outcome] = {}
        for intent in intents:
            try:
                outcomes |= await self._apply([intent])
            except Exception as error:  # noqa: BLE001 - its caller gets it
                outcomes[intent] = (None, error)
        return outcomes

    async def _apply(self, intents: Sequence[_Intent]) -> dict[_Intent, _Outcome]:
        outcomes: dict[_Intent, _Outcome] = {}
        async with self._sessions.begin() as session:
            for intent in sorted(intents, key=_lock_order):
                if intent.is_withdrawn:
                    outcomes[intent] = _WITHDRAWN
                    continue
                try:
                    outcomes[intent] = (await intent.apply(session), None)
                except CodeHubError as refusal:
                    outcomes[intent] = (None, refusal)
        return outcomes


def _lock_order(intent: _Intent) -> tuple[bool, UUID]:
    """Sort by row, the lowest id first (``store/db/row_locks``): no deadlock."""
    return (True, intent.row) if intent.row is not None else (False, UUID(int=0))


def _is_caused_by_one(error: Exception) -> bool:
    """Return whether one intent caused the error, not an outage of the database."""
    return not is_outage(error)
