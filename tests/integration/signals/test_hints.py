"""Hints shorten a wait, survive the death of Redis, and are believed in nothing but ids."""

import asyncio
from collections.abc import AsyncIterator
from uuid import UUID, uuid4

import pytest

from codehub.signals.connection import RedisLink
from codehub.signals.hints import (
    EVERYTHING,
    MAX_NAMED,
    HintChannel,
    Hints,
    HintSource,
    HintTarget,
    LocalHints,
)
from codehub.signals.live import Change, LiveFeed, LivePublisher
from tests.support.redis import RedisServer
from tests.support.waiting import until

PATIENCE = 20.0


@pytest.fixture(params=["redis", "local"])
def board(request: pytest.FixtureRequest) -> HintChannel:
    if request.param == "local":
        return LocalHints()
    return Hints(request.getfixturevalue("redis_link"))


@pytest.fixture
async def source(board: HintChannel) -> AsyncIterator[HintSource]:
    source = board.subscribe(HintTarget.OBSERVER)
    assert await source.wait(PATIENCE) == EVERYTHING  # the one fired by subscribing
    yield source
    await source.close()


async def test_a_hint_names_workspaces(board: HintChannel, source: HintSource) -> None:
    ids = {uuid4(), uuid4()}
    assert await board.publish(HintTarget.OBSERVER, ids)
    hint = await source.wait(PATIENCE)
    assert hint is not None
    assert hint.ids == ids
    assert not hint.everything


async def test_no_hint_is_a_plain_timeout(source: HintSource) -> None:
    assert await source.wait(0.01) is None


async def test_a_hint_for_another_target_is_not_heard(board: HintChannel, source: HintSource) -> None:
    await board.publish(HintTarget.RECONCILER, {uuid4()})
    mine = uuid4()
    await board.publish(HintTarget.OBSERVER, {mine})
    hint = await source.wait(PATIENCE)
    assert hint is not None
    assert hint.ids == {mine}


async def _collect(source: HintSource, marker: UUID) -> tuple[set[UUID], int, bool]:
    """Everything hinted up to and including ``marker``: ids, how many waits it took, whether unnamed."""
    ids: set[UUID] = set()
    waits, everything = 0, False
    while marker not in ids and not everything:
        hint = await source.wait(PATIENCE)
        assert hint is not None
        waits += 1
        ids |= hint.ids
        everything = hint.everything
    return ids, waits, everything


async def test_many_hints_between_waits_make_one(board: HintChannel, source: HintSource) -> None:
    ids = [uuid4() for _ in range(200)]
    for each in ids:
        await board.publish(HintTarget.OBSERVER, [each])
    seen, waits, _ = await _collect(source, ids[-1])
    assert seen == set(ids)
    assert waits < len(ids)
    assert await source.wait(0.01) is None


async def test_one_unnamed_hint_swallows_the_named(board: HintChannel, source: HintSource) -> None:
    await board.publish(HintTarget.OBSERVER, [uuid4()])
    await board.publish(HintTarget.OBSERVER)
    _, _, everything = await _collect(source, uuid4())
    assert everything


async def test_too_many_names_mean_everything(board: HintChannel, source: HintSource) -> None:
    await board.publish(HintTarget.OBSERVER, [uuid4() for _ in range(MAX_NAMED + 1)])
    assert await source.wait(PATIENCE) == EVERYTHING


async def test_a_union_too_large_means_everything() -> None:
    board = LocalHints()  # where nothing can come between the two
    source = board.subscribe(HintTarget.OBSERVER)
    await source.wait(PATIENCE)
    for _ in range(2):
        await board.publish(HintTarget.OBSERVER, [uuid4() for _ in range(MAX_NAMED // 2 + 1)])
    assert await source.wait(PATIENCE) == EVERYTHING


async def test_a_cancelled_wait_loses_nothing(board: HintChannel, source: HintSource) -> None:
    waiting = asyncio.create_task(source.wait(PATIENCE))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    mine = uuid4()
    await board.publish(HintTarget.OBSERVER, [mine])
    hint = await source.wait(PATIENCE)
    assert hint is not None
    assert hint.ids == {mine}


ONE = UUID("0190c7a2-5b1e-7c3d-9f00-3a5d2c1b4e6f")
PAYLOADS: dict[bytes, frozenset[UUID]] = {
    str(ONE).encode(): frozenset({ONE}),
    f" {ONE}\n".encode(): frozenset({ONE}),
    f'"{ONE}"'.encode(): frozenset({ONE}),
    f'["{ONE}"]'.encode(): frozenset({ONE}),
    f'{{"ids": ["{ONE}"], "more": 1}}'.encode(): frozenset({ONE}),
    f'{{"ids": "{ONE}"}}'.encode(): frozenset({ONE}),
    **dict.fromkeys(
        [
            b"",
            b"{}",
            b"\xff\xfe\x00",
            b"not json",
            b"[]",
            b'"text"',
            b"null",
            b"7",
            b'{"ids": "a"}',
            b'{"ids": {"a": 1}}',
            b'{"ids": [1]}',
            b'{"ids": ["nonsense"]}',
            b'{"ids": [null]}',
            b"[" * 50_000,
            b'{"ids": ["' + b"a" * 100_000 + b'"]}',
        ],
        frozenset(),
    ),
}


@pytest.mark.parametrize("channel", ["codehub:wake:ob", "monitor:trigger"])
async def test_any_payload_wakes(redis_server: RedisServer, redis_link: RedisLink, channel: str) -> None:
    """What names workspaces asks for a look at these, anything else for a look at everything.

    By itself: a subscription that broke over a payload and was made again would wake, too.
    """
    hints = Hints(redis_link)
    source = hints.subscribe(HintTarget.OBSERVER)
    try:
        assert await source.wait(PATIENCE) == EVERYTHING
        assert hints._subscription is not None
        broken = asyncio.create_task(hints._subscription.disconnected.wait())
        with redis_server.admin as admin:
            for payload, ids in PAYLOADS.items():
                admin.publish(channel, payload)
                hint = await source.wait(PATIENCE)
                assert hint is not None, payload[:80]
                assert hint.ids == ids, payload[:80]
                assert not broken.done(), payload[:80]
    finally:
        await source.close()
    await broken


async def test_monitor_trigger_wakes_the_observer_alone(
    redis_server: RedisServer, redis_link: RedisLink
) -> None:
    hints = Hints(redis_link)
    source = hints.subscribe(HintTarget.RECONCILER)
    try:
        assert await source.wait(PATIENCE) == EVERYTHING
        with redis_server.admin as admin:
            admin.publish("monitor:trigger", str(uuid4()))
        mine = uuid4()
        await hints.publish(HintTarget.RECONCILER, [mine])
        hint = await source.wait(PATIENCE)
        assert hint is not None
        assert hint.ids == {mine}
    finally:
        await source.close()


async def test_an_announcement_is_heard_everywhere_but_in_its_own_process(redis_link: RedisLink) -> None:
    """The one it is for has been woken there already: heeding it again would be a second look for nothing."""
    here, elsewhere = Hints(redis_link), Hints(redis_link)
    mine, theirs = here.subscribe(HintTarget.RECONCILER), elsewhere.subscribe(HintTarget.RECONCILER)
    try:
        for source in (mine, theirs):
            assert await source.wait(PATIENCE) == EVERYTHING
        told = uuid4()
        here.announce(HintTarget.RECONCILER, [told])
        hint = await theirs.wait(PATIENCE)
        assert hint is not None
        assert hint.ids == {told}
        after = uuid4()
        await elsewhere.publish(HintTarget.RECONCILER, [after])
        hint = await mine.wait(PATIENCE)
        assert hint is not None
        assert hint.ids == {after}
    finally:
        await mine.close()
        await theirs.close()


async def test_every_channel_is_below_one_prefix(redis_server: RedisServer) -> None:
    link = RedisLink(redis_server.url, channel_prefix="blue:")
    feed = LiveFeed(link)
    feed.start()
    source = Hints(link).subscribe(HintTarget.OBSERVER)
    heard = redis_server.admin.pubsub()  # type: ignore[no-untyped-call]
    try:
        assert await source.wait(PATIENCE) == EVERYTHING
        with redis_server.admin as admin:

            async def subscribed() -> bool:
                names = {name.decode() for name in admin.pubsub_channels()}
                assert all(name.startswith("blue:") for name in names)
                return len(names) == 3 + len(HintTarget) + 1

            await until(subscribed)
            heard.psubscribe("*")
            heard.get_message(timeout=PATIENCE)
            one = Change(uuid4(), uuid4(), 1)
            assert await LivePublisher(link).publish_changes([one])
            assert await LivePublisher(link).publish_resync()
            assert await LivePublisher(link).publish_person(uuid4())
            channels = [heard.get_message(timeout=PATIENCE)["channel"].decode() for _ in range(5)]
        names = ("codehub:live", f"workspace:{one.id}", f"user:{one.owner_id}", "codehub:resync")
        assert channels == [f"blue:{name}" for name in (*names, "codehub:people")]
    finally:
        heard.close()
        await source.close()
        await feed.close()
        await link.close()


async def test_the_prefix_separates_installations(redis_link: RedisLink) -> None:
    source = Hints(redis_link, prefix="one").subscribe(HintTarget.OBSERVER)
    try:
        await source.wait(PATIENCE)
        await Hints(redis_link, prefix="two").publish(HintTarget.OBSERVER, [uuid4()])
        mine = uuid4()
        await Hints(redis_link, prefix="one").publish(HintTarget.OBSERVER, [mine])
        hint = await source.wait(PATIENCE)
        assert hint is not None
        assert hint.ids == {mine}
    finally:
        await source.close()


async def test_hints_come_back_by_themselves_after_redis_was_killed(
    redis_server: RedisServer, redis_link: RedisLink
) -> None:
    hints = Hints(redis_link)
    source = hints.subscribe(HintTarget.RECONCILER)
    try:
        assert await source.wait(PATIENCE) == EVERYTHING
        for _ in range(3):
            redis_server.kill()
            assert not await hints.publish(HintTarget.RECONCILER, [uuid4()])
            assert await source.wait(0.05) is None  # polling alone carries on
            redis_server.start()
            # One hint for whatever was missed, with nobody doing anything.
            assert await source.wait(PATIENCE) == EVERYTHING
            mine = uuid4()
            assert await hints.publish(HintTarget.RECONCILER, [mine])
            hint = await source.wait(PATIENCE)
            assert hint is not None
            assert hint.ids == {mine}
    finally:
        await source.close()


async def test_a_source_made_while_redis_is_away_wakes_when_it_comes(
    redis_server: RedisServer, redis_link: RedisLink
) -> None:
    redis_server.kill()
    source = Hints(redis_link).subscribe(HintTarget.OBSERVER)
    try:
        assert await source.wait(0.1) is None
        redis_server.start()
        assert await source.wait(PATIENCE) == EVERYTHING
    finally:
        await source.close()


async def test_a_severed_subscription_is_made_again(redis_server: RedisServer, redis_link: RedisLink) -> None:
    source = Hints(redis_link).subscribe(HintTarget.OBSERVER)
    try:
        assert await source.wait(PATIENCE) == EVERYTHING
        with redis_server.admin as admin:
            admin.client_kill_filter(_type="pubsub")
        assert await source.wait(PATIENCE) == EVERYTHING
    finally:
        await source.close()


async def test_publishing_into_a_frozen_redis_ends_in_time(redis_server: RedisServer) -> None:
    link = RedisLink(redis_server.url, timeout_seconds=0.1)
    hints = Hints(link)
    try:
        assert await hints.publish(HintTarget.OBSERVER)
        redis_server.freeze()
        async with asyncio.timeout(PATIENCE):
            # Only the first of a burst pays the time-out: all of them at 0.1 s would take 100 s.
            outcomes = [await hints.publish(HintTarget.OBSERVER) for _ in range(1000)]
        assert not any(outcomes)
        redis_server.thaw()

        async def works_again() -> bool:
            return await hints.publish(HintTarget.OBSERVER)

        await until(works_again)
    finally:
        redis_server.thaw()
        await link.close()


async def test_an_outage_is_logged_once(
    redis_server: RedisServer, redis_link: RedisLink, capsys: pytest.CaptureFixture[str]
) -> None:
    hints = Hints(redis_link)
    redis_server.kill()
    for _ in range(50):
        assert not await hints.publish(HintTarget.OBSERVER)
    redis_server.start()
    assert await hints.publish(HintTarget.OBSERVER)
    output = capsys.readouterr().out
    assert output.count("redis is away") == 1
    assert output.count("redis is back") == 1
