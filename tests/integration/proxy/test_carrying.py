"""The relay: what it carries arrives, and what is not plain sailing comes back with every byte."""

import asyncio
import contextlib
import hashlib
import itertools
import os
import random
import resource
import socket
import struct
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from codehub.proxy.upstream import relay as relays
from codehub.proxy.upstream import tunnel
from codehub.proxy.upstream.relay import Left, Meter, Relay
from tests.integration.proxy.conftest import MakeEnvironment, ProxyEnvironment
from tests.integration.proxy.raw import DEADLINE, SWITCHED, Received
from tests.support.requirements import require_relay
from tests.support.waiting import until


class Ends:
    """Two connections, and the relay between them: what ``left`` writes, ``right`` reads."""

    def __init__(self, relay: Relay) -> None:
        self.left, self.near = _connection()
        self.right, self.far = _connection()
        self.returned: list[Left] = []
        self.meter = Meter.begin()
        self.pair = relay.join(self.near.fileno(), self.far.fileno(), self.meter, self.returned.append)

    def close(self) -> None:
        for one in (self.left, self.near, self.far, self.right):
            one.close()


def _connection() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        one = socket.create_connection(listening.getsockname())
        other, _ = listening.accept()
    other.setblocking(False)
    one.settimeout(DEADLINE)
    return one, other


@pytest.fixture
async def relay() -> AsyncIterator[Relay]:
    require_relay()
    before = len(os.listdir("/proc/self/fd"))
    opened = Relay.open(asyncio.get_running_loop())
    assert opened is not None
    yield opened
    opened.close()
    assert len(os.listdir("/proc/self/fd")) == before, "it leaves nothing open"


@pytest.fixture
def ends(relay: Relay) -> Iterator[Ends]:
    ends = Ends(relay)
    yield ends
    ends.close()


async def test_bytes_pass_both_ways(relay: Relay, ends: Ends) -> None:
    ends.left.sendall(b"there")
    assert ends.right.recv(100) == b"there"
    ends.right.sendall(b"and back")
    assert ends.left.recv(100) == b"and back"
    assert (len(relay), ends.returned) == (1, [])


async def test_an_end_that_closes_comes_back_before_its_last_bytes_are_lost(relay: Relay, ends: Ends) -> None:
    ends.left.sendall(b"first")
    assert ends.right.recv(100) == b"first"
    ends.left.sendall(b"last words")
    ends.left.shutdown(socket.SHUT_WR)
    await until(lambda: bool(ends.returned))
    (left,) = ends.returned
    arrived = left.data[1]
    with contextlib.suppress(BlockingIOError):
        arrived += ends.near.recv(100)
    ends.right.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        arrived += ends.right.recv(100)
    assert arrived == b"last words"
    assert ends.near.recv(100) == b"", "whoever goes on with it sees the end as well"
    assert (len(relay), left.broken) == (0, (False, False))


async def test_a_reset_comes_back(relay: Relay, ends: Ends) -> None:
    ends.left.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    ends.left.close()
    await until(lambda: bool(ends.returned))
    if not ends.returned[0].broken[0]:  # then the kernel still has it to tell
        with pytest.raises(ConnectionResetError):
            ends.near.recv(100)


async def test_a_reader_that_stops_comes_back_with_what_it_did_not_take(relay: Relay, ends: Ends) -> None:
    ends.left.setblocking(False)
    sent = b""
    while not ends.returned:
        with contextlib.suppress(BlockingIOError):
            piece = random.randbytes(50_000)
            sent += piece[: ends.left.send(piece)]
        await asyncio.sleep(0)
    (left,) = ends.returned
    ends.left.close()
    arrived = b""
    while len(arrived) < len(sent) - len(left.data[1]):
        with contextlib.suppress(BlockingIOError):  # read by nobody yet
            left = Left((b"", left.data[1] + ends.near.recv(2**20)), left.broken)
        arrived += ends.right.recv(2**20)
    assert left.data[1], "a test of something"
    assert arrived + left.data[1] == sent


async def test_once_parted_nothing_is_touched(relay: Relay, ends: Ends) -> None:
    ends.left.sendall(b"one")
    assert ends.right.recv(100) == b"one"
    assert ends.pair is not None
    assert relay.part(ends.pair) == Left((b"", b""), (False, False))
    ends.left.sendall(b"two")
    other = Ends(relay)  # the thread is awake again, and goes round
    other.left.sendall(b"three")
    assert other.right.recv(100) == b"three"
    assert ends.near.recv(100) == b"two"
    other.close()


async def test_the_numbers_of_a_parted_pair_may_be_anybodys(relay: Relay) -> None:
    """Under traffic: an event on its way when a pair is parted must not reach whoever is there now."""
    talking = [Ends(relay) for _ in range(6)]
    enough = threading.Event()

    def talk(ends: Ends) -> None:
        while not enough.is_set():
            ends.left.sendall(b"x" * 64)
            ends.right.recv(64)

    threads = [threading.Thread(target=talk, args=(ends,)) for ends in talking]
    for thread in threads:
        thread.start()
    try:
        for turn in range(6000):
            ends = talking[turn % len(talking)]
            assert ends.pair is not None
            relay.part(ends.pair)
            mine, others = socket.socketpair()  # the lowest numbers there are: those just closed
            with mine, others:
                others.send(b"not yours")
                relay._on_pairs_aside()  # waits for its turn, so the thread has gone on
                found = mine.recv(100, socket.MSG_DONTWAIT)
            ends.pair = relay.join(ends.near.fileno(), ends.far.fileno(), ends.meter, ends.returned.append)
            assert found == b"not yours"
    finally:
        enough.set()
        for thread in threads:
            thread.join()
        for ends in talking:
            ends.close()


async def test_without_descriptors_it_takes_nothing_and_loses_nothing(relay: Relay, ends: Ends) -> None:
    assert ends.pair is not None
    relay.part(ends.pair)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest_free = os.dup(0)
    os.close(lowest_free)
    for room in (0, 1):
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free + room, limits[1]))
        try:
            assert relay.join(ends.near.fileno(), ends.far.fileno(), ends.meter, ends.returned.append) is None
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    ends.left.sendall(b"still")
    await until(lambda: ends.near.recv(100, socket.MSG_PEEK) == b"still")


async def test_the_last_descriptors_are_for_people_who_come_in(monkeypatch: pytest.MonkeyPatch) -> None:
    require_relay()
    probe = os.dup(0)
    os.close(probe)
    with monkeypatch.context() as patch:
        patch.setattr(resource, "getrlimit", lambda _: (probe + 8, probe + 8))
        crowded = Relay.open(asyncio.get_running_loop())
    assert crowded is not None
    ends = Ends(crowded)
    assert (ends.pair, len(crowded)) == (None, 0)
    crowded.close()
    ends.close()


# Within the proxy ---------------------------------------------------------------------------------


async def _echo_bytes(_: Received, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(SWITCHED)
    while data := await reader.read(2**16):
        writer.write(data)
        await writer.drain()
    writer.close()


async def test_an_open_websocket_is_carried(make_environment: MakeEnvironment) -> None:
    require_relay()
    environment = await make_environment(_echo_bytes)
    client = await environment.client()
    await client.send(environment.upgrade() + b"sent before the answer")
    assert (await client.response()).status == 101
    assert await client.reader.readexactly(22) == b"sent before the answer"
    await until(lambda: environment.carried() == 1)
    await client.send(b"carried")
    assert await client.reader.readexactly(7) == b"carried"
    client.writer.write_eof()
    assert await client.rest() == b"", "closing one side first closes the other in the end"
    await until(lambda: (environment.carried(), environment.server.metrics.websockets_open) == (0, 0))


async def test_without_the_library_websockets_are_carried_by_the_event_loop(
    make_environment: MakeEnvironment, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(relays, "LIBRARY", tmp_path / "none.so")
    relays.load.cache_clear()
    try:
        environment = await make_environment(_echo_bytes)
        client = await environment.client()
        await client.send(environment.upgrade())
        assert (await client.response()).status == 101
        await client.send(b"all the same")
        assert await client.reader.readexactly(12) == b"all the same"
    finally:
        relays.load.cache_clear()


async def test_stopping_ends_what_is_carried(make_environment: MakeEnvironment) -> None:
    require_relay()
    environment = await make_environment(_echo_bytes)
    client = await environment.client()
    await client.send(environment.upgrade())
    assert (await client.response()).status == 101
    await until(lambda: environment.carried() == 1)
    await environment.server.stop()
    assert (await client.rest())[:4] == b"\x88\x2b\x03\xe9", "told: going away"


@pytest.mark.parametrize("seed", range(4))
async def test_bytes_stay_in_order_however_often_it_gives_back_and_takes(
    make_environment: MakeEnvironment, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Slow readers at both ends, and a relay that is offered the tunnel again at once."""
    require_relay()
    given_back = 0
    returned = tunnel.Tunnel._on_returned

    def count(self: tunnel.Tunnel, left: Left) -> None:
        nonlocal given_back
        given_back += 1
        returned(self, left)

    monkeypatch.setattr(tunnel, "RELAY_RETRY_SECONDS", 0.0)
    monkeypatch.setattr(tunnel.Tunnel, "_on_returned", count)
    environment = await make_environment(_echo_bytes)
    floods = (asyncio.to_thread(_flood, environment, random.Random(10 * seed + n)) for n in range(3))
    for sent, received in await asyncio.gather(*floods):
        assert sent == received
    assert given_back > 3, "a test of something"


def _flood(environment: ProxyEnvironment, dice: random.Random) -> tuple[str, str]:
    """A handshake, then bytes in pieces of every size, read back in others. → digests of both"""
    data = dice.randbytes(24 * 2**20)
    sizes = [dice.choice((1, 64, 1000, 16_384, 300_000)) for _ in range(1000)]

    def write(client: socket.socket) -> None:
        at = 0
        for size in itertools.cycle(sizes):
            client.sendall(data[at : at + size])
            at += size
            if at >= len(data):
                return

    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
        client.settimeout(DEADLINE)
        client.connect(("127.0.0.1", environment.server.port))
        client.sendall(environment.upgrade())
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += client.recv(1)
        writer = threading.Thread(target=write, args=(client,))
        writer.start()
        received, digest = 0, hashlib.sha256()
        while received < len(data) and (piece := client.recv(dice.choice((100, 5_000, 300_000)))):
            received += len(piece)
            digest.update(piece)
        writer.join()
    return hashlib.sha256(data).hexdigest(), digest.hexdigest()
