"""Watch pidfds of running workspaces, to hint the Observer when one ends.

A pidfd becomes readable when its process ends, whichever process is its parent. A hint only: the Observer finds
every ended process by itself, later.
"""

import asyncio
import os
from collections.abc import Callable, Mapping
from uuid import UUID

from codehub.runtimes.local.processes import ProcessIdentity, is_alive

OnExit = Callable[[UUID], None]


class ExitWatch:
    """One pidfd per running workspace. Used from the event loop's thread alone."""

    def __init__(self, on_exit: OnExit | None) -> None:
        self._on_exit = on_exit
        self._watched: dict[UUID, tuple[ProcessIdentity, int]] = {}

    def watch(self, running: Mapping[UUID, ProcessIdentity]) -> None:
        """Watch these too. One that ended meanwhile is left to the next observation."""
        if self._on_exit is None:
            return
        for workspace_id, identity in running.items():
            known = self._watched.get(workspace_id)
            if known is None or known[0] != identity:
                self._forget(workspace_id)
                self._watch(workspace_id, identity)

    def close(self) -> None:
        for workspace_id in list(self._watched):
            self._forget(workspace_id)

    def _watch(self, workspace_id: UUID, identity: ProcessIdentity) -> None:
        try:
            fd = os.pidfd_open(identity.pid)
        except OSError:  # ended, or no descriptors left: no hint then
            return
        if not is_alive(identity):  # checked after opening: the pid was not reused before
            os.close(fd)
            return
        self._watched[workspace_id] = identity, fd
        asyncio.get_running_loop().add_reader(fd, self._ended, workspace_id)

    def _ended(self, workspace_id: UUID) -> None:
        self._forget(workspace_id)
        if self._on_exit is not None:
            self._on_exit(workspace_id)

    def _forget(self, workspace_id: UUID) -> None:
        if (known := self._watched.pop(workspace_id, None)) is not None:
            asyncio.get_running_loop().remove_reader(known[1])
            os.close(known[1])
