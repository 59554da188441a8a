"""A subscription notices a peer that only stopped answering, and says when it had to begin again."""

from collections.abc import AsyncIterator

import pytest

from codehub.signals.connection import RedisLink, RedisUnavailable
from codehub.signals.subscription import Subscription
from tests.support.redis import RedisServer
from tests.support.waiting import until


class Listener:
    """Counts what a subscription reports."""

    def __init__(self, link: RedisLink) -> None:
        self.subscribed = 0
        self.heard: list[bytes] = []
        self.subscription = Subscription(
            link,
            use="test",
            channels=["channel"],
            on_message=self._hear,
            on_subscribed=self._begin,
            quiet_seconds=0.1,
        )

    def _begin(self) -> None:
        self.subscribed += 1

    def _hear(self, _channel: str, payload: bytes) -> None:
        self.heard.append(payload)
        if payload == b"defect":
            raise RuntimeError("a defect in the owner")


@pytest.fixture
async def listener(redis_server: RedisServer) -> AsyncIterator[Listener]:
    link = RedisLink(redis_server.url, timeout_seconds=0.2)
    listener = Listener(link)
    listener.subscription.start()
    await until(lambda: listener.subscribed == 1)
    yield listener
    await listener.subscription.close()
    await link.close()


def publish(server: RedisServer, payload: bytes) -> None:
    with server.admin as admin:
        admin.publish("channel", payload)


async def test_silence_alone_ends_nothing(redis_server: RedisServer, listener: Listener) -> None:
    """A quiet Redis answers its PINGs: the connection that was made first is the one that hears."""

    async def pinged_often() -> bool:
        with redis_server.admin as admin:
            statistics = admin.info("commandstats")
        return bool(statistics.get("cmdstat_ping", {}).get("calls", 0) >= before + 5)

    with redis_server.admin as admin:
        before = admin.info("commandstats").get("cmdstat_ping", {}).get("calls", 0)
    await until(pinged_often)
    publish(redis_server, b"hello")
    await until(lambda: listener.heard == [b"hello"])
    assert listener.subscribed == 1


async def test_a_frozen_peer_is_noticed_and_left(redis_server: RedisServer, listener: Listener) -> None:
    redis_server.freeze()
    await until(lambda: not listener.subscription.connected)
    redis_server.thaw()
    await until(lambda: listener.subscribed == 2)
    publish(redis_server, b"hello")
    await until(lambda: listener.heard == [b"hello"])


async def test_a_defect_in_the_owner_does_not_end_it_for_good(
    redis_server: RedisServer, listener: Listener
) -> None:
    publish(redis_server, b"defect")
    await until(lambda: listener.subscribed == 2)
    publish(redis_server, b"hello")
    await until(lambda: listener.heard == [b"defect", b"hello"])


async def test_what_follows_the_confirmation_arrives(redis_server: RedisServer, listener: Listener) -> None:
    for round_number in range(2, 12):
        with redis_server.admin as admin:
            admin.client_kill_filter(_type="pubsub")
        await until(lambda expected=round_number: listener.subscribed == expected)  # type: ignore[misc]
        listener.heard.clear()
        publish(redis_server, b"at once")
        await until(lambda: listener.heard == [b"at once"])


async def test_a_ping_says_whether_redis_is_there(redis_server: RedisServer, redis_link: RedisLink) -> None:
    await redis_link.ping()
    redis_server.kill()
    with pytest.raises(RedisUnavailable):
        await redis_link.ping()


async def test_pooled_connections_survive_a_restart(redis_server: RedisServer, redis_link: RedisLink) -> None:
    await redis_link.ping()
    redis_server.kill()
    redis_server.start()
    await redis_link.ping()  # the first call after it, on a connection that died meanwhile
