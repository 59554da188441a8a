"""Whoever was signed out, disabled or given another role is judged again at once, in every replica.

Only a hint: without Redis a replica believes what it remembers for two seconds, and open streams are looked
at every fifteen (``revoker``).
"""

import asyncio

from codehub.api.live.revocation import StreamRevoker
from codehub.kit.tasks import cancel_and_wait
from codehub.services.identity import Identities
from codehub.signals.live import FeedClosed, FellBehind, LiveFeed, PersonChanged


class PeopleRevocation:
    def __init__(self, feed: LiveFeed, *, identities: Identities, revoker: StreamRevoker) -> None:
        self._feed = feed
        self._identities = identities
        self._guard = revoker
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._listen(), name="people-watch")

    async def close(self) -> None:
        if self._task is not None:
            await cancel_and_wait([self._task])
            self._task = None

    async def _listen(self) -> None:
        while True:
            try:
                with self._feed.subscribe_people() as people:
                    async for notice in people:
                        if isinstance(notice, PersonChanged):
                            self._identities.forget(notice.user_id)
                            self._guard.hurry()
                return  # the feed has closed
            except FellBehind:
                self._guard.hurry()
            except FeedClosed:
                return
