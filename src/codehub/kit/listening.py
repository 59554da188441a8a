"""Closing a listening socket without hanging up on anybody.

The kernel completes connections by itself and queues them until a process accepts them. Closing the socket
resets what is in the queue: its callers were connected, perhaps had sent their request, and are cut off. So
the queue gets no more, is emptied by whoever accepts, and only then is the socket closed.
"""

import asyncio
import contextlib
import ctypes
import select
import socket
import struct

SO_ATTACH_FILTER = 26  # Linux; the module ``socket`` does not name it
EMPTY_FOR = 0.1  # seconds: as long as a handshake may take that had begun before
LOOK_EVERY = 0.01

# For the packets of a listening socket, which begin with the TCP header: drop those with the SYN flag.
_DROP_SYN = (
    (0x30, 0, 0, 13),  # load byte 13, the flags
    (0x45, 0, 1, 0x02),  # is SYN set? otherwise skip one
    (0x06, 0, 0, 0),  # drop
    (0x06, 0, 0, 0xFFFFFFFF),  # pass
)


async def stop_arrivals(listening: socket.socket, *, transaction_flags: float = 1.0) -> None:
    """Returns when its queue is empty and stays so, or after ``transaction_flags`` seconds. The caller closes it then.

    Somebody else, this event loop or another process, goes on accepting meanwhile. Who calls now repeats the
    call after a second, as if the first packet had been lost, and is refused then, or answered by the next
    process that listens there.
    """
    _drop_new_calls(listening)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(transaction_flags):
            empty = 0.0
            while empty < EMPTY_FOR:
                await asyncio.sleep(LOOK_EVERY)
                empty = 0.0 if _is_waited_for(listening) else empty + LOOK_EVERY


def _drop_new_calls(listening: socket.socket) -> None:
    if listening.family not in (socket.AF_INET, socket.AF_INET6):
        return
    code = b"".join(struct.pack("=HBBI", *step) for step in _DROP_SYN)
    program = ctypes.create_string_buffer(code, len(code))
    header = struct.pack("@HP", len(_DROP_SYN), ctypes.addressof(program))
    with contextlib.suppress(OSError):  # forbidden here: who calls in the last moment is cut off
        listening.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, header)


def _is_waited_for(listening: socket.socket) -> bool:
    """Whether a connection is in the queue."""
    asked = select.poll()
    asked.register(listening, select.POLLIN)
    return bool(asked.poll(0))
