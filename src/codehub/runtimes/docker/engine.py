"""Client of the Docker engine: one method per call, failures sorted into kinds.

All calls of this package to the engine go through here. aiodocker brings the transport (socket,
TCP, TLS, SSH), the version (the engine's own, asked once) and the streams. Failures are of three kinds:

- ``NotFound``, ``Conflict``: answers, which callers expect and handle;
- ``CallRefused``: the engine answered with another error;
- ``EffectError`` with ``DOCKER_API_ERROR``: it did not answer. Nothing follows from that about containers.

An engine that is being killed answers some calls with 500 before its socket closes. So a 500 counts as
"refused" only if the engine still answers a ping afterwards.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from datetime import datetime
from http import HTTPStatus
from typing import Any

import aiodocker
import aiohttp
from aiodocker.volumes import DockerVolume

from codehub.domain.errors import EffectError, FailureCode
from codehub.runtimes.docker.frames import demultiplex

_PING_SECONDS = 5.0
_CONNECT_SECONDS = 10.0

# With a terminal the engine looks for these keys in the input, and holds back what may be their beginning. They
# cannot be switched off, so they are ones that nobody sends.
_NO_DETACH_KEYS = "ctrl-@,ctrl-^,ctrl-_,ctrl-@,ctrl-^"

Document = dict[str, Any]
Filters = Mapping[str, Sequence[str]]


class NotFound(Exception):
    """The container, volume, image or network does not exist."""


class Conflict(Exception):
    """The name is taken, or the resource is in use."""


class CallRefused(Exception):
    """The engine refused the call; the message is its own."""


class DockerEngine:
    """Connection pool to one engine; connects on first use.

    Made in a running event loop.
    """

    def __init__(self, url: str, *, call_seconds: float) -> None:
        self.url = url
        self._timeout = aiohttp.ClientTimeout(total=call_seconds, sock_connect=_CONNECT_SECONDS)
        # Much of aiodocker has no types: this class is the only one that uses it.
        self._docker: Any = aiodocker.Docker(url=url, timeout=self._timeout)

    async def close(self) -> None:
        await self._docker.close()

    async def ping(self) -> None:
        async with self._answering("ping"), asyncio.timeout(_PING_SECONDS):
            await self._docker.version()

    async def version(self) -> Document:
        async with self._answering("version", reading=True):
            found: Document = await self._docker.version()
            return found

    async def info(self) -> Document:
        async with self._answering("info", reading=True):
            found: Document = await self._docker.system.info()
            return found

    async def time(self) -> datetime:
        """The engine's own time, which also stamps what it creates."""
        return datetime.fromisoformat((await self.info())["SystemTime"])

    # Containers

    async def containers(self, filters: Filters) -> list[Document]:
        """List containers, running or not. Filter ``volume``: those that mount it."""
        async with self._answering("list containers", reading=True):
            params = {"all": "1", "filters": json.dumps({key: list(each) for key, each in filters.items()})}
            found: list[Document] = await self._docker._query_json("containers/json", params=params)
            return found

    async def container(self, name_or_id: str) -> Document:
        async with self._answering("inspect container", reading=True):
            found: Document = await self._docker.containers.container(name_or_id).show()
            return found

    async def create_container(self, name: str, config: Mapping[str, Any]) -> str:
        async with self._answering("create container"):
            created = await self._docker.containers.create(dict(config), name=name)
            return str(created.id)

    async def start_container(self, container_id: str) -> None:
        async with self._answering("start container"):
            await self._docker.containers.container(container_id).start()

    async def stop_container(self, container_id: str, *, grace_seconds: int) -> None:
        """Send SIGTERM, and SIGKILL after the grace. Returns when it has ended."""
        timeout = aiohttp.ClientTimeout(
            total=grace_seconds + (self._timeout.total or 0), sock_connect=_CONNECT_SECONDS
        )
        async with self._answering("stop container"):
            await self._docker.containers.container(container_id).stop(t=grace_seconds, timeout=timeout)

    async def remove_container(self, container_id: str) -> None:
        """Kill and remove a container, with anonymous volumes; named ones are kept."""
        async with self._answering("remove container"):
            container = self._docker.containers.container(container_id)
            await container.delete(force=True, v=True, timeout=self._timeout)

    async def wait_container(self, container_id: str) -> int:
        """Wait until a container has ended; its exit code. No timeout."""
        async with self._answering("wait for container"):
            ended = await self._docker.containers.container(container_id).wait()
            return int(ended["StatusCode"])

    async def put_archive(self, container_id: str, path: str, tar: bytes) -> None:
        """Unpack a tar in a directory of a container, which need not run."""
        async with self._answering("copy into container"):
            await self._docker.containers.container(container_id).put_archive(path, tar)

    async def feed(self, container_id: str, data: bytes) -> None:
        """Start a container and give it ``data`` as its whole standard input."""
        container = self._docker.containers.container(container_id)
        # Attached before the start: otherwise the container could stop waiting for input before it is sent.
        async with self._answering("attach to container"), container.attach(stdin=True) as stream:
            await container.start()
            await stream.write_in(data)

    async def output(
        self, container_id: str, *, follow: bool = False, tail: int | None = None, stderr: bool = True
    ) -> AsyncGenerator[tuple[int, bytes], None]:
        """Output as (1 or 2, bytes). Ends with the container, or with the engine."""
        tty = bool((await self.container(container_id))["Config"].get("Tty"))
        params = {
            "stdout": "1",
            "stderr": "1" if stderr else "0",
            "follow": "1" if follow else "0",
            "tail": "all" if tail is None else str(tail),
        }
        # aiodocker's own logs() decodes, and fails on output that is not UTF-8.
        url = f"{self._docker.docker_host}/{self._docker.api_version}/containers/{container_id}/logs"
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS)
        async with (
            self._answering("read output"),
            self._docker.session.get(url, params=params, timeout=timeout) as response,
        ):
            if response.status == HTTPStatus.NOT_FOUND:
                raise NotFound(container_id)
            if response.status != HTTPStatus.OK:
                raise CallRefused(await response.text())
            async with aclosing(demultiplex(response.content, tty=tty)) as pieces:
                async for piece in pieces:
                    yield piece

    # Commands in containers

    async def create_exec(
        self, container_id: str, argv: Sequence[str], *, env: Mapping[str, str], cwd: str | None, tty: bool
    ) -> str:
        """Register a command with a container; its id. Runs as the container's own user."""
        async with self._answering("create exec"):
            created = await self._docker.containers.container(container_id).exec(
                list(argv),
                stdin=True,
                tty=tty,
                environment=[f"{name}={value}" for name, value in env.items()],
                workdir=cwd,
                detach_keys=_NO_DETACH_KEYS,
            )
            return str(created.id)

    async def start_exec(self, exec_id: str, *, tty: bool) -> "HijackedConnection":
        """Start a command; the connection carries its input and output from now on."""
        stream = aiodocker.execs.Exec(self._docker, exec_id, tty).start(detach=False)
        async with self._answering("start exec"):
            try:
                async with asyncio.timeout(self._timeout.total):
                    await stream._init()
            except BaseException:
                HijackedConnection(stream).abort()
                raise
        return HijackedConnection(stream)

    async def resize_exec(self, exec_id: str, *, columns: int, rows: int) -> None:
        async with self._answering("resize exec"):
            await aiodocker.execs.Exec(self._docker, exec_id).resize(h=rows, w=columns)

    async def exec_state(self, exec_id: str) -> Document:
        """``Running``, ``ExitCode`` (None: not known yet) and ``Pid`` of a command."""
        async with self._answering("inspect exec", reading=True):
            found: Document = await self._docker._query_json(f"exec/{exec_id}/json")
            return found

    # Volumes

    async def volumes(self, filters: Filters) -> list[Document]:
        """List volumes. All kinds of filters must match; of several name patterns, one."""
        async with self._answering("list volumes", reading=True):
            answer = await self._docker.volumes.list(filters=dict(filters))
        if answer.get("Warnings"):
            # A volume driver did not answer: a volume missing in the list may exist all the same.
            raise away("list volumes", "; ".join(map(str, answer["Warnings"])))
        return list(answer.get("Volumes") or ())

    async def volume(self, name: str) -> Document:
        async with self._answering("inspect volume", reading=True):
            found: Document = await self._docker._query_json(f"volumes/{name}")
            return found

    async def create_volume(self, name: str, *, labels: Mapping[str, str], driver: str) -> Document:
        """Create a volume, or return the existing one of this name, whatever its labels."""
        config = {"Name": name, "Labels": dict(labels), "Driver": driver}
        async with self._answering("create volume"):
            found: Document = await self._docker._query_json("volumes/create", method="POST", data=config)
            return found

    async def remove_volume(self, name: str) -> None:
        async with self._answering("remove volume"):
            await DockerVolume(self._docker, name).delete()  # type: ignore[no-untyped-call]

    # Images and networks

    async def image(self, reference: str) -> Document:
        async with self._answering("inspect image"):
            found: Document = await self._docker.images.inspect(reference)
            return found

    async def registry_entry(self, reference: str) -> Document:
        """The image's entry in its registry, asked for by the engine. Pulls nothing."""
        async with self._answering("ask registry"):
            found: Document = await self._docker._query_json(f"distribution/{reference}/json")
            return found

    async def pull(self, reference: str) -> AsyncIterator[Document]:
        """Pull an image; yields its progress. No timeout: images are large."""
        async with self._answering("pull image"):
            async for line in self._docker.images.pull(reference, stream=True):
                yield line

    async def networks(self, filters: Filters) -> list[Document]:
        async with self._answering("list networks", reading=True):
            found: list[Document] = await self._docker.networks.list(filters=filters)
            return found

    async def create_network(self, config: Mapping[str, Any]) -> str:
        async with self._answering("create network"):
            return str((await self._docker.networks.create(dict(config))).id)

    async def remove_network(self, network_id: str) -> None:
        async with self._answering("remove network"):
            await (await self._docker.networks.get(network_id)).delete()

    # Events

    async def events(self, filters: Filters) -> AsyncGenerator[Document, None]:
        """Events from now on. Ends when the engine goes away."""
        subscriber = self._docker.events.subscribe(create_task=False)
        running = asyncio.ensure_future(self._docker.events.run(filters=dict(filters)))
        try:
            async with self._answering("listen to events"):
                while (event := await subscriber.get()) is not None:
                    yield event
                await running  # raises what ended it
        finally:
            running.cancel()
            await asyncio.wait({running})

    # Errors

    @asynccontextmanager
    async def _answering(self, what: str, *, reading: bool = False) -> AsyncIterator[None]:
        """Translate errors of one call. ``reading``: a failed listing counts as an engine that is away."""
        try:
            yield
        except aiodocker.DockerError as error:
            sorted_error = await self._sorted(what, error)
            if reading and isinstance(sorted_error, CallRefused):
                sorted_error = away(what, str(sorted_error))
            raise sorted_error from error
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            raise away(what, str(error) or type(error).__name__) from error

    async def _sorted(self, what: str, error: aiodocker.DockerError) -> Exception:
        message = str(error.message).strip()
        match error.status:
            case HTTPStatus.NOT_FOUND:
                return NotFound(message)
            case HTTPStatus.CONFLICT:
                return Conflict(message)
            case HTTPStatus.SERVICE_UNAVAILABLE | 900:  # 900: aiodocker could not connect
                return away(what, message)
            case _ if error.status < HTTPStatus.INTERNAL_SERVER_ERROR:
                return CallRefused(message)
        if what != "ping":
            try:
                await self.ping()
            except EffectError:
                return away(what, message)
            return CallRefused(message)
        return away(what, message)


class HijackedConnection:
    """A connection to the engine that carries one command's input and output.

    aiodocker reads it with flow control, but can neither end the input alone nor drop the connection at once.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def read(self) -> Any:
        """The next piece, as (stream, data); None: the end, or the connection was lost."""
        try:
            return await self._stream.read_out()
        except (aiohttp.ClientError, OSError):
            return None

    async def write(self, data: bytes) -> None:
        """Send input; dropped if the other side is gone, of which ``read`` learns more."""
        if self._transport is not None and not self._transport.is_closing():
            with suppress(aiohttp.ClientError, OSError, AssertionError):
                await self._stream.write_in(data)

    def end_input(self) -> bool:
        """End the input; False: this kind of connection cannot."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return True
        if not transport.can_write_eof():
            return False
        transport.write_eof()
        return True

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()
        self._stream._closed = True  # or it warns
        if self._stream._resp is not None:
            self._stream._resp.close()

    @property
    def _transport(self) -> Any:
        response = self._stream._resp
        connection = response.connection if response is not None else None
        return connection.transport if connection is not None else None


def away(what: str, why: str) -> EffectError:
    """An engine that did not answer."""
    return EffectError(
        FailureCode.DOCKER_API_ERROR,
        f"The Docker engine did not answer ({what}): {why}",
        endpoint="docker",
        call=what,
    )
