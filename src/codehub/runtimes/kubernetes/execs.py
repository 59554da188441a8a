"""Run commands in a workspace's pod over a WebSocket of the API server, and end them.

Each message begins with a byte that names its channel. With ``v5.channel.k8s.io`` (Kubernetes 1.30) one more message
ends standard input alone; a server or a proxy before it that knows ``v4`` only cannot, and says so. The end is a status
on a channel of its own: a connection that closes without one was cut.

The API takes neither an environment nor a directory, so ``inside`` sets them and becomes the command; where it
cannot be had a few lines of shell do.
"""

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from uuid import UUID, uuid4

import aiohttp
import structlog

from codehub.domain.errors import EffectError, FailureCode
from codehub.kit.clock import monotonic
from codehub.runtimes.engine_exec import (
    KILL_SECONDS,
    NO_PROGRAM,
    EngineExec,
    container_ended,
    could_not_end,
    not_running,
)
from codehub.runtimes.exec_commands import launch_command, mark_of, signal_command
from codehub.runtimes.exec_stream import (
    NOT_EXECUTABLE,
    NOT_FOUND,
    PIECE_BYTES,
    ExecStream,
    Exit,
    Output,
    Stream,
    TerminalSize,
)
from codehub.runtimes.inside import PROGRAM
from codehub.runtimes.kubernetes.client import ApiClient, CallRefused, Conflict, NotFound, away
from codehub.runtimes.kubernetes.inside_copy import InsideCopies
from codehub.runtimes.kubernetes.inventory import Pod
from codehub.runtimes.kubernetes.names import CONTAINER, Document
from codehub.runtimes.kubernetes.pods import Pods
from codehub.runtimes.kubernetes.settings import KubernetesSettings

log = structlog.get_logger(__name__)

_STDIN, _STDOUT, _STDERR, _STATUS, _RESIZE, _CLOSE = 0, 1, 2, 3, 4, 255
_PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_CAN_END_INPUT = _PROTOCOLS[0]
_OUTPUTS = {_STDOUT: Stream.STDOUT, _STDERR: Stream.STDERR}
_STATUS_SECONDS = 1.0
_KILLED = Exit(137)
_CANNOT_RUN = re.compile(r"permission denied|exec format error|is a directory|chdir to cwd")


class PodExecs:
    """Runs commands in the pods of one namespace."""

    def __init__(self, api: ApiClient, pods: Pods, settings: KubernetesSettings) -> None:
        self._api = api
        self._pods = pods
        self._copies = InsideCopies(api, pods, settings)

    async def run(
        self,
        pod: Pod | None,
        workspace_id: UUID,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str | None,
        tty: TerminalSize | None,
    ) -> ExecStream:
        """Run a command in a workspace's pod."""
        if pod is None or not pod.is_running:
            raise not_running(workspace_id, "no pod runs")
        mark = uuid4().hex
        name, _, value = mark_of(mark).partition("=")
        has_inside = await self._ensure_inside(pod, argv)
        command = launch_command(argv, env={**env, name: value}, cwd=cwd, has_inside=has_inside)
        try:
            connection = await self._connect(pod, command, tty=tty is not None)
        except (CallRefused, Conflict, NotFound) as error:
            current = await self._pods.find(pod.name)
            if current is None or current.uid != pod.uid or not current.is_running:
                raise not_running(workspace_id, str(error)) from error
            raise EffectError(FailureCode.EXEC_FAILED, f"The API server refused: {error}") from error
        stream = PodExec(self, pod, mark, connection, tty=tty is not None, has_inside=has_inside)
        await stream.begin(tty)
        return stream

    async def _ensure_inside(self, pod: Pod, argv: Sequence[str]) -> bool:
        """Bring ``inside`` into the pod. False: it cannot be had; what does not need it goes without."""
        try:
            await self._copies.ensure(pod)
        except EffectError as error:
            if argv[0] == PROGRAM:
                raise
            log.debug("a command runs without inside", pod=pod.name, error=error.message)
            return False
        return True

    async def signal(self, pod: Pod, mark: str, name: str, *, has_inside: bool) -> bool:
        """Signal all a command started, by a second exec. True: none is left that was to be killed."""
        try:
            command = signal_command(mark, name, has_inside=has_inside)
            connection = await self._connect(pod, command, tty=False)
        except (CallRefused, Conflict, NotFound):
            return await self.has_ended(pod)
        try:
            async for message in connection:
                if message.type is aiohttp.WSMsgType.BINARY and message.data[0] == _STATUS:
                    return _exit_of(json.loads(message.data[1:])) == Exit(0)
            return False
        finally:
            await connection.close()

    async def has_ended(self, pod: Pod) -> bool:
        current = await self._pods.find(pod.name)
        return current is None or current.uid != pod.uid or not current.is_running or current.terminating

    async def _connect(
        self, pod: Pod, command: Sequence[str], *, tty: bool
    ) -> aiohttp.ClientWebSocketResponse:
        flags = {"stdin": "true", "stdout": "true", "stderr": "false" if tty else "true"}
        params = [("container", CONTAINER), ("tty", "true" if tty else "false"), *flags.items()]
        params += [("command", word) for word in command]
        return await self._api.connect(self._pods.path(pod.name, "exec"), params, protocols=_PROTOCOLS)


class PodExec(EngineExec):
    def __init__(
        self,
        execs: PodExecs,
        pod: Pod,
        mark: str,
        connection: aiohttp.ClientWebSocketResponse,
        *,
        tty: bool,
        has_inside: bool,
    ) -> None:
        super().__init__(tty=tty)
        self._execs = execs
        self._pod = pod
        self._mark = mark
        self._has_inside = has_inside
        self._connection = connection
        self._receiving = asyncio.Lock()  # a reader, and whoever closes, may not receive at the same time
        self._input_ended = False

    async def read(self) -> Output | None:
        while not self._ended.done():
            async with self._receiving:
                if self._ended.done():
                    break
                message = await self._connection.receive()
                if message.type is not aiohttp.WSMsgType.BINARY:
                    await self._lose()
                    continue
                channel, data = message.data[0], message.data[1:]
                if channel == _STATUS:
                    self._learn_exit(json.loads(data))
                elif data and channel in _OUTPUTS:
                    return Output(_OUTPUTS[channel], data)
        if self._ended.exception() is not None:
            self._ended.result()
        return None

    async def write(self, data: bytes) -> None:
        for begin in range(0, len(data), PIECE_BYTES):
            if self._input_ended or self._ended.done():
                return
            await self._send(_STDIN, data[begin : begin + PIECE_BYTES])

    async def close_stdin(self) -> None:
        if self._tty or self._input_ended or self._ended.done():
            return
        if self._connection.protocol != _CAN_END_INPUT:
            raise EffectError(
                FailureCode.EXEC_FAILED,
                "Standard input cannot be ended by itself: the API server, or a proxy before it, does not speak "
                f"{_CAN_END_INPUT} (Kubernetes 1.30).",
            )
        self._input_ended = True
        await self._send(_CLOSE, bytes([_STDIN]))

    async def resize(self, size: TerminalSize) -> None:
        if self._tty and not self._ended.done():
            await self._send(_RESIZE, json.dumps({"Width": size.columns, "Height": size.rows}).encode())

    async def _disconnect(self) -> None:
        await self._connection.close()

    async def _send(self, channel: int, data: bytes) -> None:
        with suppress(aiohttp.ClientError, OSError):  # reading tells why
            await self._connection.send_bytes(bytes([channel]) + data)

    async def _end(self, grace_seconds: float) -> None:
        """End the command, reading on: the API has no other way to tell that it has ended by itself.

        Of one that was killed while it did not read its input the API server never tells the end.
        """
        if self._tty:
            await self._signal("HUP")
        with suppress(EffectError):
            await self.close_stdin()
        if grace_seconds > 0:
            await self._drain(grace_seconds)
        deadline = monotonic() + KILL_SECONDS
        while not self._ended.done():
            if monotonic() > deadline:
                raise could_not_end()
            if await self._signal("KILL"):
                await self._drain(_STATUS_SECONDS)
                self._tell(_KILLED)

    async def _signal(self, name: str) -> bool:
        return await self._execs.signal(self._pod, self._mark, name, has_inside=self._has_inside)

    async def _drain(self, seconds: float) -> None:
        with suppress(TimeoutError, EffectError):
            async with asyncio.timeout(seconds):
                while await self.read() is not None:
                    pass

    async def _lose(self) -> None:
        """The connection closed without a status: with the pod, or with the API server."""
        try:
            if await self._execs.has_ended(self._pod):
                error = container_ended()
            else:
                error = away("exec", "the connection was lost")
        except EffectError as unreachable:
            error = unreachable
        self._fail(error)

    def _learn_exit(self, status: Document) -> None:
        ended = _exit_of(status)
        if isinstance(ended, EffectError):
            self._fail(ended)
        else:
            self._tell(ended)


def _exit_of(status: Document) -> Exit | EffectError:
    """How it ended, by the status of the API server."""
    if status.get("status") == "Success":
        return Exit(0)
    message = str(status.get("message"))
    if status.get("reason") == "NonZeroExitCode":
        causes = (status.get("details") or {}).get("causes") or ()
        codes = [each["message"] for each in causes if each.get("reason") == "ExitCode"]
        if codes and codes[0].isdigit():
            return Exit(int(codes[0]))
    if NO_PROGRAM.search(message):
        return Exit(NOT_FOUND, message)
    if _CANNOT_RUN.search(message):
        return Exit(NOT_EXECUTABLE, message)
    if "container not found" in message or "container not running" in message:
        return EffectError(FailureCode.CONTAINER_ENDED, f"The container ended: {message}")
    return EffectError(FailureCode.EXEC_FAILED, message)
