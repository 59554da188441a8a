"""A client of an SSH session behind a WebSocket, as ``codehub ssh`` is.

Binary messages are SSH's bytes, text messages are JSON about the workspace, for people who wait.
"""

import json

from fastapi import WebSocket

from codehub.api.inside.endings import SessionEnd, end_of_socket


class SocketClient:
    """Carries bytes over a WebSocket that was accepted."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket

    async def receive(self) -> bytes | SessionEnd:
        while True:
            message = await self._socket.receive()
            if message["type"] == "websocket.disconnect":
                return end_of_socket(message.get("code"))
            data: bytes | None = message.get("bytes")
            if data:
                return data

    async def send(self, data: bytes) -> None:
        await self._socket.send_bytes(data)

    async def tell(self, status: str) -> None:
        await self._socket.send_text(json.dumps({"status": status}))
