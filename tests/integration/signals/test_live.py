"""Live events: one Redis subscription, many readers, every gap ends in a resync."""

import asyncio
from collections.abc import AsyncIterator
from uuid import UUID, uuid4

import pytest

from codehub.signals.connection import RedisLink
from codehub.signals.live import (
    Change,
    FeedClosed,
    FellBehind,
    LiveFeed,
    LivePublisher,
    LiveSubscription,
    Notice,
    Progress,
    Resync,
)
from codehub.signals.notices import LIVE_CHANNEL, encode_notices
from tests.support.redis import RedisServer
from tests.support.waiting import until

PATIENCE = 20.0


@pytest.fixture
def publisher(redis_link: RedisLink) -> LivePublisher:
    return LivePublisher(redis_link)


@pytest.fixture
async def feed(redis_link: RedisLink) -> AsyncIterator[LiveFeed]:
    feed = LiveFeed(redis_link)
    feed.start()
    await until(lambda: feed.connected)
    yield feed
    await feed.close()


def change(*, owner: UUID | None = None, version: int = 1) -> Change:
    return Change(uuid4(), owner or uuid4(), version, frozenset({"operation"}))


async def read(subscription: LiveSubscription, count: int) -> list[Notice | None]:
    return [await subscription.next(PATIENCE) for _ in range(count)]


async def test_each_reader_hears_its_own_exactly_once(feed: LiveFeed, publisher: LivePublisher) -> None:
    one, two = change(), change()
    with (
        feed.subscribe_workspace(one.id) as of_workspace,
        feed.subscribe_user(two.owner_id) as of_user,
        feed.subscribe_all() as of_all,
    ):
        assert await publisher.publish_changes([one, two])
        assert await read(of_all, 2) == [one, two]
        assert await read(of_workspace, 1) == [one]
        assert await read(of_user, 1) == [two]
        for each in (of_workspace, of_user, of_all):
            assert await each.next(0.01) is None
    assert feed.subscriber_count == 0


async def test_order_is_kept(feed: LiveFeed, publisher: LivePublisher) -> None:
    owner = uuid4()
    changes = [change(owner=owner, version=version) for version in range(1, 501)]
    with feed.subscribe_user(owner) as subscription:
        await publisher.publish_changes(changes)
        assert await read(subscription, 500) == changes


async def test_one_bad_notice_does_not_take_the_others_with_it(
    redis_server: RedisServer, feed: LiveFeed, publisher: LivePublisher
) -> None:
    mine = change()
    (message,) = encode_notices([mine, mine])
    with feed.subscribe_workspace(mine.id) as subscription:
        with redis_server.admin as admin:
            admin.publish(LIVE_CHANNEL, message.replace(b"[", b'[{"id":"?"},', 1))
        assert await read(subscription, 2) == [mine, mine]


async def test_all_that_waits_is_taken_at_once_with_a_resync_first(
    feed: LiveFeed, publisher: LivePublisher
) -> None:
    later = [change(version=version) for version in (2, 3)]
    with feed.subscribe_all() as subscription, feed.subscribe_all() as witness:
        await publisher.publish_changes([change()])
        await publisher.publish_resync()
        await publisher.publish_changes(later)
        while await witness.next(PATIENCE) != later[-1]:
            pass
        assert await subscription.take(PATIENCE) == [Resync(), *later]
        assert await subscription.take(0.01) == []


async def test_progress_is_thinned_per_workspace(feed: LiveFeed, publisher: LivePublisher) -> None:
    busy, other, owner = uuid4(), uuid4(), uuid4()
    with feed.subscribe_user(owner) as subscription:
        sent = [await publisher.publish_progress(busy, owner, {"percent": step}) for step in range(5)]
        assert await publisher.publish_progress(other, owner, {"percent": 50})
        assert sent[0]
        assert sum(sent) < 5
        first, *rest = await read(subscription, sum(sent) + 1)
        assert first == Progress(busy, owner, {"percent": 0})
        assert rest[-1] == Progress(other, owner, {"percent": 50})


async def test_a_broadcast_resync_reaches_everybody(feed: LiveFeed, publisher: LivePublisher) -> None:
    with (
        feed.subscribe_workspace(uuid4()) as of_workspace,
        feed.subscribe_user(uuid4()) as of_user,
        feed.subscribe_all() as of_all,
    ):
        assert await publisher.publish_resync()
        for each in (of_workspace, of_user, of_all):
            assert await read(each, 1) == [Resync()]


async def test_after_redis_was_killed_readers_are_told_to_begin_again(
    redis_server: RedisServer, feed: LiveFeed, publisher: LivePublisher
) -> None:
    mine = change()
    with feed.subscribe_workspace(mine.id) as subscription:
        for _ in range(3):
            redis_server.kill()
            await until(lambda: not feed.connected)
            assert not await publisher.publish_changes([mine])  # the publisher knows that it is owed
            redis_server.start()
            assert await read(subscription, 1) == [Resync()]
            assert await publisher.publish_changes([mine])
            assert await read(subscription, 1) == [mine]


async def test_a_resync_replaces_what_was_queued(feed: LiveFeed, publisher: LivePublisher) -> None:
    with feed.subscribe_all() as subscription, feed.subscribe_all() as witness:
        await publisher.publish_changes([change() for _ in range(10)])
        await publisher.publish_resync()
        while await witness.next(PATIENCE) != Resync():
            pass
        assert await read(subscription, 1) == [Resync()]


async def test_a_slow_reader_is_dropped_and_harms_nobody(
    redis_link: RedisLink, publisher: LivePublisher
) -> None:
    feed = LiveFeed(redis_link, max_behind=100)
    feed.start()
    await until(lambda: feed.connected)
    try:
        slow, quick = feed.subscribe_all(), feed.subscribe_all()
        for _ in range(3):
            batch = [change() for _ in range(50)]
            await publisher.publish_changes(batch)
            assert await read(quick, 50) == batch
        assert slow.fell_behind
        assert feed.subscriber_count == 1
        with pytest.raises(FellBehind):
            await slow.next(PATIENCE)
        with pytest.raises(FellBehind):
            async for _ in slow:
                pass
    finally:
        await feed.close()


async def test_a_thousand_readers_need_one_connection_and_no_task(
    redis_server: RedisServer, feed: LiveFeed, publisher: LivePublisher
) -> None:
    tasks = len(asyncio.all_tasks())
    owners = [uuid4() for _ in range(1000)]
    readers = [feed.subscribe_user(owner) for owner in owners]
    assert len(asyncio.all_tasks()) == tasks
    with redis_server.admin as admin:
        assert sum("subscriber" in client["name"] for client in admin.client_list()) == 1
    changes = [change(owner=owner) for owner in owners]
    for start in range(0, 1000, 250):
        assert await publisher.publish_changes(changes[start : start + 250])
    received = [await reader.next(PATIENCE) for reader in readers]
    assert received == changes
    for reader in readers:
        reader.close()
    assert feed.subscriber_count == 0


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"nonsense",
        b"{}",
        b"5",
        b"[5, null, []]",
        b'[{"id": "x", "owner_id": "y", "version": 1, "changed": []}]',
        b'[{"id": "%(id)s", "owner_id": "%(owner)s", "version": "1", "changed": []}]',
        b'[{"id": "%(id)s", "owner_id": "%(owner)s", "version": true, "changed": []}]',
        b'[{"id": "%(id)s", "owner_id": "%(owner)s", "version": 1, "changed": [1]}]',
        b'[{"id": "%(id)s", "owner_id": "%(owner)s", "progress": 5}]',
        b'[{"id": "%(stranger)s", "owner_id": "%(stranger)s", "version": 1, "changed": []}]',
        b"[" * 100_000,
    ],
    ids=range(12),
)
async def test_garbage_is_ignored(
    redis_server: RedisServer, feed: LiveFeed, publisher: LivePublisher, payload: bytes
) -> None:
    mine = change()
    names = {b"id": str(mine.id).encode(), b"owner": str(mine.owner_id).encode()}
    names[b"stranger"] = str(uuid4()).encode()
    with feed.subscribe_workspace(mine.id) as subscription:
        with redis_server.admin as admin:
            admin.publish(LIVE_CHANNEL, payload % names)
        await publisher.publish_changes([mine])
        assert await read(subscription, 1) == [mine]


async def test_closing_the_feed_ends_every_loop(redis_link: RedisLink) -> None:
    feed = LiveFeed(redis_link)
    feed.start()
    subscription = feed.subscribe_all()

    async def consume() -> None:
        async for _ in subscription:
            pass

    consumer = asyncio.create_task(consume())
    await until(lambda: feed.connected)
    await feed.close()
    async with asyncio.timeout(PATIENCE):
        await consumer
    with pytest.raises(FeedClosed):
        await subscription.next()
