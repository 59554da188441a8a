"""A workspace whose WebSocket sends everything back, written for speed: PORT or SOCKET is its argument.

It knows just enough of RFC 6455 to be a fair upstream: it answers the handshake and turns each masked frame
into an unmasked one. Frames are at most 64 KiB.
"""

import asyncio
import base64
import hashlib
import re
import sys
from typing import cast

import uvloop

GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
KEY = re.compile(rb"sec-websocket-key: *(\S+)", re.IGNORECASE)


class Echo(asyncio.Protocol):
    def __init__(self) -> None:
        self.buffer = bytearray()
        self.open = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is none by inheritance

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        if not self.open:
            end = self.buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            key = KEY.search(self.buffer)
            if key is None:
                self.transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
                self.transport.close()
                return
            accept = base64.b64encode(hashlib.sha1(key.group(1) + GUID, usedforsecurity=False).digest())
            self.transport.write(
                b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n"
            )
            del self.buffer[: end + 4]
            self.open = True
        self.answer_frames()

    def answer_frames(self) -> None:
        buffer = self.buffer
        while len(buffer) >= 6:
            length, at = buffer[1] & 127, 2
            if length == 126:
                length, at = int.from_bytes(buffer[2:4], "big"), 4
            if len(buffer) < at + 4 + length:
                return
            mask, payload = buffer[at : at + 4], buffer[at + 4 : at + 4 + length]
            if any(mask):  # the load generator masks with zeros: allowed, and it spares both sides the work
                payload = bytearray(byte ^ mask[i & 3] for i, byte in enumerate(payload))
            self.transport.write(bytes((buffer[0], buffer[1] & 127)) + buffer[2:at] + payload)
            del buffer[: at + 4 + length]


async def main() -> None:
    loop, where = asyncio.get_running_loop(), sys.argv[1]
    if where.startswith("/"):
        server = await loop.create_unix_server(Echo, where)
    else:
        server = await loop.create_server(Echo, "127.0.0.1", int(where))
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main())
