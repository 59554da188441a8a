"""A storm of connections becomes one hint at its beginning and one after it, never one for each."""

import asyncio
from uuid import UUID, uuid4

from codehub.signals.activity_publisher import ActivityPublisher
from codehub.signals.connection import RedisLink
from codehub.signals.live import ActivityChanged, LiveFeed, LivePublisher, PersonChanged
from tests.support.waiting import until

PATIENCE = 20.0


async def test_the_first_is_told_at_once_and_the_rest_as_one() -> None:
    told: list[UUID] = []

    async def publish(workspace_id: UUID, _: UUID) -> bool:
        told.append(workspace_id)
        return True

    news = ActivityPublisher(publish, interval_seconds=0.2)
    busy, other, owner = uuid4(), uuid4(), uuid4()
    try:
        news.changed(busy, owner)
        news.changed(other, owner)
        await until(lambda: len(told) == 2)
        for _ in range(100):
            news.changed(busy, owner)
        await until(lambda: told.count(busy) == 2)
        assert told[:2] == [busy, other]
        news.changed(busy, owner)
        await until(lambda: told.count(busy) == 3)
        assert told.count(other) == 1
    finally:
        await news.close()


async def test_hints_reach_whom_they_concern(redis_link: RedisLink) -> None:
    feed, publisher = LiveFeed(redis_link), LivePublisher(redis_link)
    feed.start()
    workspace_id, owner = uuid4(), uuid4()
    try:
        await until(lambda: feed.connected)
        with (
            feed.subscribe_user(owner) as mine,
            feed.subscribe_user(uuid4()) as strangers,
            feed.subscribe_people() as people,
        ):
            await publisher.publish_activity(workspace_id, owner)
            await publisher.publish_person(owner)
            assert await mine.next(PATIENCE) == ActivityChanged(workspace_id, owner)
            assert await people.next(PATIENCE) == PersonChanged(owner)
            await asyncio.sleep(0)
            assert await strangers.next(0) is None
            assert await mine.next(0) is None, "people's rights are nobody else's news"
    finally:
        await feed.close()
