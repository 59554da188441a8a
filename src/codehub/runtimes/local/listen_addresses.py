"""Reserve where a workspace's IDE listens: a Unix socket, or a port.

Every account of the machine can connect to a loopback port. A socket is open to those who may enter its directory:
CodeHub's user alone, and in a sandbox only its own workspace. The reserved port names that directory (see
``ports``), so two workspaces never share one.

The workspace can write to its directory. What it leaves there is removed before the next start, and links in it
are never followed.
"""

import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID, uuid4

from codehub.domain.errors import EffectError, FailureCode
from codehub.kit.trees import remove_tree
from codehub.kit.unix_sockets import connect_without_links
from codehub.runtimes.local import locks, ports
from codehub.runtimes.local.layout import Layout
from codehub.runtimes.local.records import ProcessRecord


@dataclass(frozen=True)
class ListenAddress:
    port: int
    socket: Path | None = None  # None: on the port

    @property
    def values(self) -> dict[str, str]:
        """Values of the placeholders of a command line."""
        if self.socket is None:
            return {"{port}": str(self.port)}
        return {"{socket}": str(self.socket)}

    @property
    def variables(self) -> dict[str, str]:
        """The same as environment variables."""
        if self.socket is None:
            return {"CODEHUB_PORT": str(self.port)}
        return {"CODEHUB_SOCKET": str(self.socket)}

    async def answers(self) -> bool:
        """Whether a process listens there."""
        if self.socket is None:
            return await ports.answers(self.port)
        try:
            connect_without_links(str(self.socket)).close()
        except BlockingIOError:  # it listens, and its queue is full
            return True
        except OSError:
            return False
        return True


def reserve_address(layout: Layout, workspace_id: UUID, *, lock_fd: int, on_socket: bool) -> ListenAddress:
    """Reserve a port and socket for one workspace.

    The caller holds the workspace's lock, and no process of it runs.
    """
    _make_private(layout.sockets)
    kept = locks.kept_port(lock_fd)
    if kept is not None:  # before the port is released: then another workspace may use the name
        _clear(layout.socket(kept).parent)
    port = ports.reserve_port(layout.ports, workspace_id, kept=kept)
    locks.keep_port(lock_fd, port)
    if not on_socket:
        return ListenAddress(port)
    path = layout.socket(port)
    _clear(path.parent)
    path.parent.mkdir(mode=0o700)
    return ListenAddress(port, path)


def remove_socket(layout: Layout, record: ProcessRecord) -> None:
    """Remove the socket's directory: the process of the record has ended."""
    socket_path = layout.socket(record.port)
    if record.socket == str(socket_path):  # otherwise the data directory was moved, and the path is not ours
        _clear(socket_path.parent)


def remove_socket_directory(layout: Layout) -> None:
    """Remove the directory of sockets outside the data directory, if it is empty."""
    if not layout.sockets.is_relative_to(layout.data_dir):
        with suppress(OSError):  # not empty: a workspace runs
            os.rmdir(layout.sockets)


def release_address(layout: Layout, workspace_id: UUID, *, lock_fd: int) -> None:
    """Release port and socket: the workspace is deleted. The caller holds its lock."""
    port = locks.kept_port(lock_fd)
    if port is not None:
        _clear(layout.socket(port).parent)
        ports.release_port(layout.ports, workspace_id, port)
        locks.keep_port(lock_fd, None)


def _make_private(directory: Path) -> None:
    """Create a private directory, or check it: in ``/tmp`` another account may have created it."""
    directory.mkdir(mode=0o700, exist_ok=True)
    found = directory.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise EffectError(
            FailureCode.CONTAINER_START_FAILED,
            f"{directory} belongs to somebody else, or others may enter it: remove it",
            path=str(directory),
        )


def _clear(directory: Path) -> None:
    """Rename it, which its content cannot prevent, then delete it as far as possible."""
    aside = directory.with_name(f".{uuid4().hex}")
    try:
        os.rename(directory, aside)
    except FileNotFoundError:
        return
    with suppress(OSError, RecursionError):  # a workspace may have made it arbitrarily deep
        remove_tree(aside)
