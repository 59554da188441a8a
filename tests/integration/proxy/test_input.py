"""What counts as input of a person: frames of a WebSocket, as the relay sees them."""

import asyncio
import os
import struct
import time
from collections.abc import AsyncIterator

import pytest

from codehub.proxy.upstream.relay import Meter, Relay
from tests.integration.proxy.test_carrying import Ends
from tests.support.requirements import require_relay
from tests.support.waiting import until

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
KEY = b'["stdin","a"]'  # one key in a terminal of JupyterLab
KEEP_ALIVE = bytes(13)  # of VS Code, every 5 s
MINUTE = 60 * 10**9


def frame(opcode: int, payload: bytes) -> bytes:
    """A frame as clients send it: masked. ``opcode`` with 0x80: not the last one of its message."""
    size = len(payload)
    if size < 126:
        length = bytes([0x80 | size])
    elif size < 65536:
        length = b"\xfe" + struct.pack(">H", size)
    else:
        length = b"\xff" + struct.pack(">Q", size)
    return bytes([0x80 ^ opcode]) + length + os.urandom(4) + payload


@pytest.fixture
async def relay() -> AsyncIterator[Relay]:
    require_relay()
    opened = Relay.open(asyncio.get_running_loop())
    assert opened is not None
    yield opened
    opened.close()


@pytest.fixture
def meter() -> Meter:
    return Meter(opened_at=time.monotonic_ns() - MINUTE)


def rest(meter: Meter) -> None:
    """Let time pass, as far as the meter knows."""
    meter.recent[0] -= MINUTE
    meter.recent[1] -= MINUTE


@pytest.mark.parametrize("payload", [KEEP_ALIVE, b"2", b"{}", os.urandom(256)], ids=len)
async def test_messages_that_keep_a_connection_alive_are_not(
    relay: Relay, meter: Meter, payload: bytes
) -> None:
    for _ in range(100):
        rest(meter)
        relay.count(meter, frame(BINARY, payload))
    assert meter.input_at == 0


async def test_two_of_them_in_a_second_are_not_either(relay: Relay, meter: Meter) -> None:
    """An acknowledgement beside a keep-alive."""
    for _ in range(50):
        rest(meter)
        relay.count(meter, frame(BINARY, KEEP_ALIVE) * 2)
    assert meter.input_at == 0


@pytest.mark.parametrize("opcode", [PING, PONG, CLOSE])
async def test_control_frames_never_are(relay: Relay, meter: Meter, opcode: int) -> None:
    relay.count(meter, frame(opcode, b"x" * 125) * 1000)
    assert meter.input_at == 0


async def test_keys_in_a_row_are(relay: Relay, meter: Meter) -> None:
    relay.count(meter, frame(TEXT, KEY) * 3)
    assert meter.input_at > 0


@pytest.mark.parametrize("size", [257, 126 + 200, 70_000])
async def test_a_larger_message_is(relay: Relay, meter: Meter, size: int) -> None:
    relay.count(meter, frame(TEXT, b"x" * size))
    assert meter.input_at > 0


async def test_what_a_page_sends_right_after_it_connected_is_not(relay: Relay) -> None:
    fresh = Meter.begin()
    relay.count(fresh, frame(TEXT, b"who I am" * 100) * 20)
    assert fresh.input_at == 0


@pytest.mark.parametrize("step", [1, 2, 3, 7, 1000])
async def test_frames_may_come_in_any_pieces(relay: Relay, meter: Meter, step: int) -> None:
    """Payloads look like heads of large frames: one byte out of step would be seen."""
    quiet = frame(PING, b"\x82\xfe" * 60) + frame(BINARY, b"\x82\xff" * 100) + frame(PONG, b"")
    for _ in range(20):
        rest(meter)
        for start in range(0, len(quiet), step):
            relay.count(meter, quiet[start : start + step])
    sent = meter.sent[0]
    assert (meter.input_at, sent.left, sent.head_size, sent.lost) == (0, 0, 0, 0)


async def test_bytes_that_are_no_frames_count(relay: Relay, meter: Meter) -> None:
    """Losing the signal keeps awake."""
    relay.count(meter, b"\x8f\x00 something else")
    assert meter.sent[0].lost
    first = meter.input_at
    relay.count(meter, b"x")
    assert meter.input_at > first > 0


async def test_the_thread_counts_what_the_client_sends_and_nothing_else(relay: Relay) -> None:
    ends = Ends(relay)
    ends.meter.opened_at -= MINUTE
    try:
        output = frame(TEXT, b"x" * 5000) * 20
        ends.right.sendall(output)
        arrived = b""
        while len(arrived) < len(output):
            arrived += ends.left.recv(65536)
        assert ends.meter.input_at == 0
        ends.left.sendall(frame(TEXT, KEY) * 3)
        await until(lambda: ends.meter.input_at > 0, what="the keys to be counted")
    finally:
        ends.close()
