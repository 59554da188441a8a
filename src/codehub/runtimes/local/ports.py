"""Reserve a port for each workspace, never the same one for two.

The proxy sends people to the workspace's port. If two workspaces could hold one port, even for a moment, one
person would reach another's IDE. So a port is reserved by creating a symlink, which is atomic, and stays reserved
until the volume is deleted, also while the workspace is stopped.

Ports are below the range the kernel uses for outgoing connections, so that none of these occupies a port when the
workspace starts again.
"""

import asyncio
import errno
import os
import secrets
import socket
from itertools import chain
from pathlib import Path
from uuid import UUID

from codehub.domain.errors import EffectError, FailureCode

HOST = "127.0.0.1"
_FIRST = 20000
_FEWEST = 2000


def reserve_port(ports: Path, workspace_id: UUID, *, kept: int | None) -> int:
    """Reserve the workspace's port: ``kept`` if that is free, otherwise a new one.

    The caller holds the workspace's lock, and stores the port there (``locks.keep_port``). A crash between the
    two loses one port of thousands.
    """
    if kept is not None and _owner(ports, kept) == workspace_id:
        if is_free(kept):
            return kept
        release_port(ports, workspace_id, kept)
    first, last = _usable_range()
    start = first + secrets.randbelow(last + 1 - first)
    for port in chain(range(start, last + 1), range(first, start)):
        if not is_free(port):
            continue
        try:
            os.symlink(str(workspace_id), ports / str(port))
        except FileExistsError:
            continue
        return port
    raise EffectError(FailureCode.CONTAINER_START_FAILED, "no free port is left on this machine")


def release_port(ports: Path, workspace_id: UUID, port: int) -> None:
    """Release the port. The caller holds the lock, and the process has ended."""
    if _owner(ports, port) == workspace_id:
        (ports / str(port)).unlink(missing_ok=True)


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


async def answers(port: int) -> bool:
    """Whether a process listens on the port.

    Needs no thread: loopback answers at once. The first ``connect_ex`` only begins the connection; the second one
    returns its result.
    """
    with socket.socket() as probe:
        probe.setblocking(False)
        result = probe.connect_ex((HOST, port))
        if result == errno.EINPROGRESS:
            result = probe.connect_ex((HOST, port))
        if result != errno.EALREADY:
            return result == 0
        try:
            async with asyncio.timeout(0.2):
                await asyncio.get_running_loop().sock_connect(probe, (HOST, port))
        except (OSError, TimeoutError):
            return False
    return True


def _owner(ports: Path, port: int) -> UUID | None:
    try:
        return UUID(os.readlink(ports / str(port)))
    except (OSError, ValueError):
        return None


def _usable_range() -> tuple[int, int]:
    try:
        with open("/proc/sys/net/ipv4/ip_local_port_range") as file:
            low = int(file.read().split()[0])
    except (OSError, ValueError, IndexError):
        low = 32768
    return (_FIRST, low - 1) if low - _FIRST >= _FEWEST else (_FIRST, 60999)
