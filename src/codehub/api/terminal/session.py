"""Carry one terminal between a browser and ``inside terminal`` in a workspace.

The shell is held there, by a process that outlives this one: a browser that comes back, to whichever replica, finds it
with its recent output. Binary messages are the terminal's bytes. Text messages are JSON: ``resize`` and ``ack`` from
the browser, ``attached``, ``live``, ``took``, ``exit``, ``refused`` and ``status`` to it.

A browser cannot be made to wait by TCP: it keeps what it receives. So it says how much it has shown (``ack``), and is
told how much of its input was taken (``took``); neither side has more than a window under way. Were input to wait for
output in one stream, a program that waits for its output to be read would never read its input.
"""

import asyncio
import json
import re
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import assert_never

from fastapi import WebSocket
from prometheus_client import Gauge

from codehub.api.dependencies import InsideAccess, Leases
from codehub.api.inside.endings import (
    MISUSED,
    NO_SHELL,
    NO_TUNNEL,
    SHELL_ENDED,
    TAKEN_OVER,
    TOO_MANY_SHELLS,
    SessionEnd,
    end_of_socket,
)
from codehub.api.inside.frames import Nonsense, Sent, Told, frames, pack
from codehub.api.inside.session import WorkspaceSession
from codehub.api.state import AppState
from codehub.domain.errors import EffectError
from codehub.kit.clock import monotonic
from codehub.runtimes.exec_stream import ExecStream, TerminalSize
from codehub.services.identity import Principal
from codehub.store.workspaces.records import WorkspaceRecord

HEARTBEAT_SECONDS = 15.0
"""``inside`` gives up after 75 s of silence: an engine that was killed may leave the stream open."""
MAX_INPUT_BYTES = 64 * 1024
MAX_WAITING_BYTES = 256 * 1024
MAX_CONTROL_LENGTH = 256
TOOK_EVERY_BYTES = 16 * 1024
OUTPUT_WINDOW_BYTES = 256 * 1024
"""Output that the browser has not shown yet; then the program waits."""
MAX_SIZE = 1000

# What a terminal says by itself: answers to questions of programs, and whether it has the focus.
_REPORT = re.compile(rb"(\x1b\[([?>=]?[\d;]*[cnR]|[IO]))+")

SESSIONS = Gauge("codehub_terminal_sessions", "Open terminals of this process")


@dataclass(frozen=True)
class TerminalRequest:
    """Which terminal a browser wants.

    ``client``: this page, as long as it is open. ``resume``: it comes back by itself, and takes the terminal from
    nobody.
    """

    name: str
    size: TerminalSize
    client: str
    resume: bool

    def opening(self, caller: Principal) -> bytes:
        """The first line for ``inside``. Each person has terminals of their own, also in the same workspace."""
        told = {
            "name": sha256(f"{caller.user.id} {self.name}".encode()).hexdigest()[:32],
            "columns": self.size.columns,
            "rows": self.size.rows,
            "client": self.client,
            "resume": self.resume,
        }
        return json.dumps(told).encode() + b"\n"


class TerminalSession(WorkspaceSession[ExecStream]):
    """One connection. ``run`` returns how it ended."""

    kind = "terminal"
    gauge = SESSIONS

    def __init__(
        self,
        socket: WebSocket,
        record: WorkspaceRecord,
        caller: Principal,
        *,
        state: AppState,
        access: InsideAccess,
        request: TerminalRequest,
    ) -> None:
        super().__init__(record, caller, state=state)
        self._socket = socket
        self._access = access
        self._request = request
        self._received = asyncio.Queue()  # bounded by MAX_WAITING_BYTES
        self._waiting_bytes = 0
        self._new_size: TerminalSize | None = None
        self._not_shown_bytes = 0
        self._shown = asyncio.Event()
        # Opening a terminal is a person's doing, coming back is not.
        self._input_at = None if request.resume else monotonic()

    @property
    def _leases(self) -> Leases:
        return self._access.leases

    def _input_age(self) -> float | None:
        return None if self._input_at is None else monotonic() - self._input_at

    # The browser ----------------------------------------------------------------------------------

    async def _receive(self) -> None:
        while True:
            message = await self._socket.receive()
            if message["type"] == "websocket.disconnect":
                self._finish(end_of_socket(message.get("code")))
                return
            if data := message.get("bytes"):
                self._take_input(data)
            elif (text := message.get("text")) is not None and not self._take_control(text):
                self._finish(MISUSED)

    async def _tell_status(self, status: str) -> None:
        await self._tell(status=status)

    def _take_input(self, data: bytes) -> None:
        self._waiting_bytes += len(data)
        if len(data) > MAX_INPUT_BYTES or self._waiting_bytes > MAX_WAITING_BYTES:
            self._finish(MISUSED)
            return
        if not _REPORT.fullmatch(data):
            self._input_at = monotonic()
        self._received.put_nowait(data)

    def _take_control(self, text: str) -> bool:
        try:
            told = json.loads(text) if len(text) <= MAX_CONTROL_LENGTH else None
        except (ValueError, RecursionError):
            return False
        match told:
            case {"resize": [int(columns), int(rows)]} if 0 < columns <= MAX_SIZE and 0 < rows <= MAX_SIZE:
                if self._new_size is None:
                    self._received.put_nowait(b"")  # in its place among the input; the latest size counts
                self._new_size = TerminalSize(columns, rows)
            case {"ack": int(count)} if 0 <= count <= self._not_shown_bytes:
                self._not_shown_bytes -= count
                self._shown.set()
            case _:
                return False
        return True

    # The workspace --------------------------------------------------------------------------------

    async def _open_once(self) -> ExecStream:
        stream = await self._access.terminal(self._id)
        try:
            await stream.write(self._request.opening(self._caller))
        except BaseException:
            await stream.close()
            raise
        return stream

    async def _send(self, tunnel: ExecStream) -> None:
        taken = 0
        with suppress(EffectError):  # whoever reads it says so
            while True:
                try:
                    async with asyncio.timeout(HEARTBEAT_SECONDS):
                        data = await self._received.get()
                except TimeoutError:
                    await tunnel.write(pack(Sent.HEARTBEAT))
                    continue
                if not data:
                    size, self._new_size = self._new_size, None
                    assert size is not None
                    await tunnel.write(
                        pack(Sent.RESIZE, size.columns.to_bytes(2, "big") + size.rows.to_bytes(2, "big"))
                    )
                    continue
                await tunnel.write(pack(Sent.INPUT, data))
                self._waiting_bytes -= len(data)
                taken += len(data)
                if taken >= TOOK_EVERY_BYTES:
                    await self._tell(took=taken)
                    taken = 0

    async def _pass_on(self, tunnel: ExecStream) -> None:
        began = False
        try:
            async for kind, data in frames(tunnel):
                began = True
                if (end := await self._handle(kind, data)) is not None:
                    self._finish(end)
                    return
        except Nonsense:
            self._finish(NO_TUNNEL)
            return
        if not began:  # a program that does not know this verb: the workspace was started by an older release
            self._finish(NO_TUNNEL)
            return
        await self._finish_at_end()

    async def _handle(self, kind: Told, data: bytes) -> SessionEnd | None:
        match kind:
            case Told.OUTPUT:
                await self._show(data)
            case Told.ATTACHED:
                await self._tell(attached={"new": data == b"\x01"})
            case Told.LIVE:
                await self._tell(live=True)
            case Told.TAKEN:
                return TAKEN_OVER
            case Told.FULL:
                return TOO_MANY_SHELLS
            case Told.REFUSED:
                await self._tell(refused=data[:500].decode("utf-8", "replace"))
                return NO_SHELL
            case Told.EXIT:
                await self._tell(exit=data[0] if data else 0)
                return SHELL_ENDED
            case Told.ERRORS | Told.TOOK:  # a terminal has one output, and no window of its own
                return NO_TUNNEL
            case _ as never:
                assert_never(never)
        return None

    async def _show(self, data: bytes) -> None:
        while self._not_shown_bytes >= OUTPUT_WINDOW_BYTES:
            self._shown.clear()
            await self._shown.wait()
        self._not_shown_bytes += len(data)
        await self._socket.send_bytes(data)

    async def _tell(self, **told: object) -> None:
        await self._socket.send_text(json.dumps(told))
