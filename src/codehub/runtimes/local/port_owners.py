"""Check that a workspace itself listens on a TCP port. Cached by inode.

Called for the workspace's other ports, and before and after each connection to any of them. The leader's descendants
are asked first; a process that left the tree is found by a scan of the whole machine. A listening socket that was
found to be a workspace's own stays so for as long as it listens and the workspace runs, so it is cached.
"""

from collections.abc import Sequence
from uuid import UUID

from codehub.runtimes.local.listeners import Listener, listeners, loopback_host, reached_at, socket_inodes
from codehub.runtimes.local.processes import ProcessIdentity, find_descendants, members
from codehub.runtimes.local.spawn import WORKSPACE_VARIABLE


class PortOwners:
    """Cache of port owners. Blocking; thread-safe: an entry is replaced as a whole."""

    def __init__(self) -> None:
        self._own: dict[UUID, tuple[ProcessIdentity, frozenset[int]]] = {}

    def find_host(self, workspace_id: UUID, leader: ProcessIdentity, port: int) -> str | None:
        """The loopback address where only the workspace listens; None: there is none."""
        found = listeners(port)
        return loopback_host(found, self._own_inodes(workspace_id, leader, found)) if found else None

    def find_listener(
        self, workspace_id: UUID, leader: ProcessIdentity, *, host: str, port: int
    ) -> frozenset[int] | None:
        """Inodes of the listeners there; None unless all are the workspace's own."""
        found = reached_at(host, listeners(port))
        inodes = frozenset(each.inode for each in found)
        if not inodes or not inodes <= self._own_inodes(workspace_id, leader, found):
            return None
        return inodes

    def forget(self, workspace_id: UUID) -> None:
        self._own.pop(workspace_id, None)

    def _own_inodes(
        self, workspace_id: UUID, leader: ProcessIdentity, found: Sequence[Listener]
    ) -> frozenset[int]:
        known_leader, known = self._own.get(workspace_id, (leader, frozenset()))
        asked = {each.inode for each in found}
        if known_leader == leader and asked <= known:
            return known
        # Pays for: POST → ready, 50 at once. A scan costs as much as the machine has processes.
        own = frozenset(socket_inodes(find_descendants(leader)))
        if not asked <= own:
            own = frozenset(socket_inodes(members(leader, f"{WORKSPACE_VARIABLE}={workspace_id}")))
        # Of all its sockets only these are known to listen, so only these are cached.
        kept = known if known_leader == leader else frozenset[int]()
        self._own[workspace_id] = leader, (kept & own) | (own & asked)
        return own
