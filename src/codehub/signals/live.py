"""Publish live events from the control plane to API replicas over Redis.

The event listener publishes changes, all that arrived together in one message; the Reconciler publishes
progress, at most twice a second per workspace; proxies publish activity changes, at most once a second. All
of it goes through one channel: each API replica has **one** Redis subscription, however many browsers it
serves, needs every event anyway, and ``LiveFeed`` dispatches the notices in memory.

In the same round trip every single change is also published to ``workspace:{id}`` and ``user:{owner_id}``:
for an operator, or a program beside CodeHub, that follows one workspace or one person.

Delivery is not guaranteed. Readers converge all the same, because every gap ends in ``Resync``: the feed
emits it after each (re-)subscription, and the event listener broadcasts it when publishing failed.
"""

import asyncio
from collections.abc import Sequence
from uuid import UUID

from codehub.signals.connection import RedisLink, RedisUnavailable
from codehub.signals.feed import FeedClosed, FellBehind, LiveFeed, LiveSubscription, follow
from codehub.signals.notices import (
    LIVE_CHANNEL,
    PEOPLE_CHANNEL,
    RESYNC_CHANNEL,
    ActivityChanged,
    Change,
    Notice,
    OfWorkspace,
    PersonChanged,
    Progress,
    Resync,
    encode_notice,
    encode_notices,
)
from codehub.signals.outage import Outage

__all__ = [
    "ActivityChanged",
    "Change",
    "FeedClosed",
    "FellBehind",
    "LiveFeed",
    "LivePublisher",
    "LiveSubscription",
    "Notice",
    "PersonChanged",
    "Progress",
    "Resync",
    "follow",
]

PROGRESS_INTERVAL_SECONDS = 0.5
MANY_CHANGES = 200


class LivePublisher:
    """Publishes live events; returns False if readers may have missed some.

    Never raises because Redis is away. After False, a publisher of *changes* must call ``publish_resync``
    once Redis is back.
    """

    def __init__(self, link: RedisLink) -> None:
        self._link = link
        self._outage = Outage("live events")
        self._progress_sent_at: dict[UUID, float] = {}

    async def publish_changes(self, changes: Sequence[Change], *, each: Sequence[Change] = ()) -> bool:
        """Publish changes in order, in one round trip.

        ``each``: every single change, where ``changes`` merges them.
        """
        return await self._publish(changes, each=each or changes)

    async def publish_progress(self, workspace_id: UUID, owner_id: UUID, progress: dict[str, object]) -> bool:
        """Publish progress, at most twice a second per workspace.

        False: not sent, or dropped because the last one is younger than 0.5 s.
        """
        now = asyncio.get_running_loop().time()
        if now - self._progress_sent_at.get(workspace_id, -1.0) < PROGRESS_INTERVAL_SECONDS:
            return False
        if len(self._progress_sent_at) > 1000:
            self._forget_finished(now)
        self._progress_sent_at[workspace_id] = now
        return await self._publish([Progress(workspace_id, owner_id, progress)])

    async def publish_wait(
        self, workspace_id: UUID, owner_id: UUID, *, operation: str, reason: str | None
    ) -> bool:
        """Publish what an operation waits for; None: it goes on. Rare, so none is dropped."""
        news = {"operation": operation, "percent": None, "waiting_for": reason}
        return await self._publish([Progress(workspace_id, owner_id, news)])

    async def publish_activity(self, workspace_id: UUID, owner_id: UUID) -> bool:
        return await self._publish([ActivityChanged(workspace_id, owner_id)])

    async def publish_person(self, user_id: UUID) -> bool:
        """Publish that a person's rights changed: every process checks them again.

        That includes open WebSockets and cached decisions of this person.
        """
        try:
            async with self._link.bounded(self._outage) as client:
                await client.publish(self._link.channel(PEOPLE_CHANNEL), str(user_id).encode())
        except RedisUnavailable:
            return False
        return True

    async def publish_resync(self) -> bool:
        """Make every subscriber of every replica start over from snapshots."""
        try:
            async with self._link.bounded(self._outage) as client:
                await client.publish(self._link.channel(RESYNC_CHANNEL), b"{}")
        except RedisUnavailable:
            return False
        return True

    async def _publish(self, notices: Sequence[OfWorkspace], *, each: Sequence[Change] = ()) -> bool:
        if not notices:
            return True
        messages = [(LIVE_CHANNEL, message) for message in encode_notices(notices)]
        if not await self._send([*messages, *_one_by_one(each[:MANY_CHANGES])]):
            return False
        for at in range(MANY_CHANGES, len(each), MANY_CHANGES):
            # Browsers have the changes already. The channels of single workspaces and persons are best effort.
            await self._send(_one_by_one(each[at : at + MANY_CHANGES]))
        return True

    async def _send(self, messages: Sequence[tuple[str, bytes]]) -> bool:
        """Publish messages in one round trip. False: Redis is away."""
        try:
            async with self._link.bounded(self._outage) as client, client.pipeline(transaction=False) as pipe:
                for channel, message in messages:
                    pipe.publish(self._link.channel(channel), message)
                await pipe.execute()
        except RedisUnavailable:
            return False
        return True

    def _forget_finished(self, now: float) -> None:
        self._progress_sent_at = {
            workspace_id: sent_at
            for workspace_id, sent_at in self._progress_sent_at.items()
            if now - sent_at < PROGRESS_INTERVAL_SECONDS
        }


def _one_by_one(changes: Sequence[Change]) -> list[tuple[str, bytes]]:
    return [
        (channel, encode_notice(change))
        for change in changes
        for channel in (f"workspace:{change.id}", f"user:{change.owner_id}")
    ]
