"""Where a workspace's IDE listens: on a socket in a directory of its own, or on a port.

A port of the loopback is open to everybody on the machine; a socket to those who may enter its directory,
which is CodeHub's user alone, and in a sandbox to the one workspace whose it is. The reserved port names that
directory (see ``ports``), so two workspaces never share one.

The workspace can write to its directory. Whatever it leaves there is removed before the next start, and
nobody follows a link in it.
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
from codehub.runtimes.local.records import Record


@dataclass(frozen=True)
class Place:
    port: int
    socket: Path | None = None  # None: on the port

    @property
    def values(self) -> dict[str, str]:
        """What the placeholders of a command line stand for."""
        if self.socket is None:
            return {"{port}": str(self.port)}
        return {"{socket}": str(self.socket)}

    @property
    def variables(self) -> dict[str, str]:
        """The same for its environment."""
        if self.socket is None:
            return {"CODEHUB_PORT": str(self.port)}
        return {"CODEHUB_SOCKET": str(self.socket)}

    async def answers(self) -> bool:
        """Whether somebody listens."""
        if self.socket is None:
            return await ports.answers(self.port)
        try:
            connect_without_links(str(self.socket)).close()
        except BlockingIOError:  # it listens, and is too busy to take one more
            return True
        except OSError:
            return False
        return True


def take_place(layout: Layout, workspace_id: UUID, *, lock_fd: int, on_socket: bool) -> Place:
    """A place nobody else has. The caller holds the workspace's lock, and nothing of it runs."""
    _make_private(layout.sockets)
    kept = locks.kept_port(lock_fd)
    if kept is not None:  # before the port may be given up: then the name may be another's
        _clear(layout.socket(kept).parent)
    port = ports.reserve_port(layout.ports, workspace_id, kept=kept)
    locks.keep_port(lock_fd, port)
    if not on_socket:
        return Place(port)
    path = layout.socket(port)
    _clear(path.parent)
    path.parent.mkdir(mode=0o700)
    return Place(port, path)


def leave(layout: Layout, record: Record) -> None:
    """The process of the record has ended."""
    place = layout.socket(record.port)
    if record.socket == str(place):  # of an installation that was moved, it is not ours any more
        _clear(place.parent)


def leave_all(layout: Layout) -> None:
    """Everything has ended: nothing of it stays outside the data directory."""
    if not layout.sockets.is_relative_to(layout.data_dir):
        with suppress(OSError):  # not empty: something of it runs
            os.rmdir(layout.sockets)


def give_back(layout: Layout, workspace_id: UUID, *, lock_fd: int) -> None:
    """The workspace is gone. The caller holds its lock."""
    port = locks.kept_port(lock_fd)
    if port is not None:
        _clear(layout.socket(port).parent)
        ports.release_port(layout.ports, workspace_id, port)
        locks.keep_port(lock_fd, None)


def _make_private(directory: Path) -> None:
    """``/tmp`` belongs to everybody: a directory of that name may have been laid out for us by a stranger."""
    directory.mkdir(mode=0o700, exist_ok=True)
    found = directory.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise EffectError(
            FailureCode.CONTAINER_START_FAILED,
            f"{directory} belongs to somebody else, or others may enter it: remove it",
            path=str(directory),
        )


def _clear(directory: Path) -> None:
    """Out of the way by a rename, which nothing in it can prevent; then deleted, as far as possible."""
    aside = directory.with_name(f".{uuid4().hex}")
    try:
        os.rename(directory, aside)
    except FileNotFoundError:
        return
    with suppress(OSError, RecursionError):  # a workspace may have made it as deep as it liked
        remove_tree(aside)
