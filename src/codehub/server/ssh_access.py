"""Connect the API to ``inside ssh`` in workspaces, by the runtime's ``exec``.

The first line that ``inside`` reads has the workspace's host key: it must not be in arguments or variables, which the
workspace's other processes can read.
"""

import asyncio
import json
from base64 import b64encode
from pathlib import Path
from uuid import UUID

import structlog

from codehub.api.dependencies import Leases
from codehub.domain.errors import EffectError, FailureCode
from codehub.kit.cache import TtlCache
from codehub.runtimes.base import Runtime
from codehub.runtimes.exec_stream import NOT_FOUND, ExecStream, Stream
from codehub.runtimes.inside import find_inside
from codehub.server.inside_access import find_shown_at
from codehub.server.settings.tree import RuntimeKind, Settings
from codehub.services.ssh_host_keys import host_key_seed

log = structlog.get_logger(__name__)

CLOSE_SECONDS = 5.0
"""How long ``inside`` may take to end what it started: it gives it 2 s before it kills."""


class RuntimeSshAccess:
    """SSH into the workspaces of one runtime."""

    def __init__(
        self,
        runtime: Runtime,
        *,
        program: Path,
        shown_at: str,
        secret: bytes,
        leases: Leases,
        shares_network: bool,
    ) -> None:
        """``program``: ``inside`` for this machine; ``shown_at``: where workspaces see theirs.

        ``shares_network``: they use the machine's network, so its loopback is not theirs alone.
        """
        self._runtime = runtime
        self._program = program
        self._shown_at = shown_at
        self._secret = secret
        self._leases = leases
        self._shares_network = shares_network
        self._keys: TtlCache[UUID, str] = TtlCache(size=4096, ttl=86400.0)

    @property
    def leases(self) -> Leases:
        return self._leases

    async def host_key(self, workspace_id: UUID) -> str:
        """The public key, made by the same program that serves it."""
        known = self._keys.get(workspace_id)
        if known is not None:
            return known
        process = await asyncio.create_subprocess_exec(
            self._program, "key", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        out, _ = await process.communicate(self._opening(workspace_id, keep=False))
        if process.returncode != 0:
            raise EffectError(FailureCode.LOCAL_RUNTIME_ERROR, "the host key could not be made")
        key = out.decode().strip()
        self._keys.put(workspace_id, key)
        return key

    async def open(self, workspace_id: UUID, *, keep: bool) -> "ExecTunnel":
        stream = await self._runtime.exec(workspace_id, [self._shown_at, "ssh"])
        tunnel = ExecTunnel(stream, workspace_id)
        try:
            await tunnel.write(self._opening(workspace_id, keep=keep))
        except BaseException:
            await tunnel.close()
            raise
        return tunnel

    def _opening(self, workspace_id: UUID, *, keep: bool) -> bytes:
        opening = {
            "host_key": b64encode(host_key_seed(self._secret, workspace_id)).decode(),
            "keep": keep,
            "own_listeners_only": self._shares_network,
        }
        return json.dumps(opening).encode() + b"\n"


class ExecTunnel:
    """``inside ssh`` as a stream of bytes. What it writes to standard error is logged."""

    def __init__(self, stream: ExecStream, workspace_id: UUID) -> None:
        self._stream = stream
        self._id = workspace_id
        self._began = False

    async def read(self) -> bytes:
        while (output := await self._stream.read()) is not None:
            self._began = True
            if output.stream is Stream.STDOUT:
                return output.data
            said = output.data[:500].decode("utf-8", "replace").strip()
            log.warning("ssh tunnel complains", workspace_id=str(self._id), said=said)
        if not self._began and (ended := await self._stream.wait()).code == NOT_FOUND:
            raise EffectError(
                FailureCode.EXEC_FAILED,
                f"The workspace does not have the program for SSH, as it was started by an older release or without "
                f"it: stop and start it. {ended.message}",
            )
        return b""

    async def write(self, data: bytes) -> None:
        await self._stream.write(data)

    async def close(self) -> None:
        await self._stream.close(grace_seconds=CLOSE_SECONDS)


def build_ssh_access(
    settings: Settings, runtime: Runtime, *, secret: bytes, leases: Leases
) -> RuntimeSshAccess | None:
    """None: the program was not built, or cannot be shown to workspaces of this runtime."""
    directory, shown_at = find_inside(), find_shown_at(settings)
    if directory is None or shown_at is None:
        return None
    return RuntimeSshAccess(
        runtime,
        program=directory / "inside",
        shown_at=shown_at,
        secret=secret,
        leases=leases,
        shares_network=settings.runtime.kind is RuntimeKind.LOCAL,
    )
