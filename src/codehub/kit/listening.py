"""Close a listening socket without resetting connections in its accept queue.

The kernel completes connections by itself and queues them until a process accepts them. Closing the socket
resets those in the queue: their clients were connected, perhaps had sent their request, and are cut off. So
new connections are dropped first, the accepting process empties the queue, and only then is the socket
closed.
"""

import asyncio
import contextlib
import ctypes
import select
import socket
import struct

SO_ATTACH_FILTER = 26  # Linux; the module ``socket`` does not name it
EMPTY_SECONDS = 0.1  # as long as a handshake may take that had begun before
POLL_SECONDS = 0.01

# For the packets of a listening socket, which begin with the TCP header: drop those with the SYN flag.
_DROP_SYN = (
    (0x30, 0, 0, 13),  # load byte 13, the flags
    (0x45, 0, 1, 0x02),  # is SYN set? otherwise skip one
    (0x06, 0, 0, 0),  # drop
    (0x06, 0, 0, 0xFFFFFFFF),  # pass
)


async def stop_arrivals(listening: socket.socket, *, timeout: float = 1.0) -> None:
    """Drop new connections and wait until the accept queue stays empty.

    Returns after ``timeout`` seconds at the latest; the caller closes the socket then. Meanwhile this event
    loop or another process goes on accepting. A client that connects now sends its SYN again after a second,
    as if the first packet had been lost, and is refused then, or accepted by the next process that listens
    there.
    """
    _drop_new_connections(listening)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(timeout):
            empty = 0.0
            while empty < EMPTY_SECONDS:
                await asyncio.sleep(POLL_SECONDS)
                empty = 0.0 if _has_queued(listening) else empty + POLL_SECONDS


def _drop_new_connections(listening: socket.socket) -> None:
    if listening.family not in (socket.AF_INET, socket.AF_INET6):
        return
    code = b"".join(struct.pack("=HBBI", *step) for step in _DROP_SYN)
    program = ctypes.create_string_buffer(code, len(code))
    header = struct.pack("@HP", len(_DROP_SYN), ctypes.addressof(program))
    with contextlib.suppress(OSError):  # not permitted: connections queued in the last moment are reset
        listening.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, header)


def _has_queued(listening: socket.socket) -> bool:
    """Return whether a connection is in the queue."""
    poll = select.poll()
    poll.register(listening, select.POLLIN)
    return bool(poll.poll(0))
