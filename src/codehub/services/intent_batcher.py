"""Batch intents: the changes many people ask for in one moment are one transaction.

Whoever may take a running place waits for one lock (``store/workspaces/limits``), from the count to the commit. Fifty
people who press start together would each hold a connection while they queue there, all that the process
has, and pay a flush to disk each. So they queue here, holding nothing, and a handful at a time is granted in
one transaction.

Two things make that safe. **A refusal has written nothing**: services look first and write last, so
``LimitReached`` or ``NameTaken`` leaves the transaction as it was for the others. And if the database itself
refuses one intent, all of the handful are undone, and each is tried again by itself: whoever made it fail,
fails alone. A process that dies in here leaves nothing, and nobody was told otherwise.
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
"""The lock is every replica's: it is given back after a few dozen statements."""

PATIENCE_SECONDS = 10.0


class _Intent:
    """Each is itself and no other, also when two people want the same."""

    def __init__(self, apply: Callable[[Session], Awaitable[object]], row: UUID | None) -> None:
        self.apply = apply
        self.row = row
        self.is_withdrawn = False


_Outcome = tuple[object, Exception | None]
_WITHDRAWN: _Outcome = (None, None)


class IntentBatcher:
    """Of one process; other replicas have their own, and all meet at the database's lock."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._asked: Batched[_Intent, _Outcome] = Batched(self._apply_all, max_batch=AT_ONCE, max_loads=1)

    async def submit(self, apply: Callable[[Session], Awaitable[T]], *, row: UUID | None = None) -> T:
        """What ``apply`` returns, committed, or what it raises. One service call, which refuses first.

        ``row``: the workspace it will lock; None: it makes one, which nobody else can know of yet.
        ``TimeoutError``: the database is stuck. What had not begun by then is not granted later either.
        """
        intent = _Intent(apply, row)
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                outcome = await self._asked.get(intent)
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
            if len(intents) == 1 or not _is_of_one(error):
                raise
        outcomes: dict[_Intent, _Outcome] = {}
        for intent in intents:
            try:
                outcomes |= await self._apply([intent])
            except Exception as error:  # noqa: BLE001 - whoever asked is told
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
    """Several rows in one transaction: the lowest first, as everybody does (``store/db/row_locks``)."""
    return (True, intent.row) if intent.row is not None else (False, UUID(int=0))


def _is_of_one(error: Exception) -> bool:
    """Whether one of the intents is to blame, and not the database being away for all of them."""
    return not is_outage(error)
