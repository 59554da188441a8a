"""Check that a workspace itself listens on a TCP port. Cached by inode.

Called for the workspace's other ports, and before and after each connection to any of them. Finding the owner of
a socket takes a scan of all processes. A listening socket that was found to be a workspace's own stays so for as
long as it listens and the workspace runs, so it is cached.
"""

from collections.abc import Sequence
from uuid import UUID

from codehub.runtimes.local.listeners import Listener, listeners, loopback_host, reached_at, socket_inodes
from codehub.runtimes.local.processes import Identity, members
from codehub.runtimes.local.spawn import WORKSPACE_VARIABLE


class PortOwners:
    """Cache of port owners. Blocking; thread-safe: an entry is replaced as a whole."""

    def __init__(self) -> None:
        self._own: dict[UUID, tuple[Identity, frozenset[int]]] = {}

    def find_host(self, workspace_id: UUID, leader: Identity, port: int) -> str | None:
        """The loopback address where only the workspace listens; None: there is none."""
        found = listeners(port)
        return loopback_host(found, self._own_inodes(workspace_id, leader, found)) if found else None

    def find_listener(
        self, workspace_id: UUID, leader: Identity, *, host: str, port: int
    ) -> frozenset[int] | None:
        """Inodes of the listeners there; None unless all are the workspace's own."""
        found = reached_at(host, listeners(port))
        inodes = frozenset(each.inode for each in found)
        if not inodes or not inodes <= self._own_inodes(workspace_id, leader, found):
            return None
        return inodes

    def forget(self, workspace_id: UUID) -> None:
        self._own.pop(workspace_id, None)

    def _own_inodes(self, workspace_id: UUID, leader: Identity, found: Sequence[Listener]) -> frozenset[int]:
        known_leader, known = self._own.get(workspace_id, (leader, frozenset()))
        asked = {each.inode for each in found}
        if known_leader == leader and asked <= known:
            return known
        family = members(leader, f"{WORKSPACE_VARIABLE}={workspace_id}")
        own = frozenset(socket_inodes(family))
        # Of all its sockets only these are known to listen, so only these are cached.
        kept = known if known_leader == leader else frozenset[int]()
        self._own[workspace_id] = leader, (kept & own) | (own & asked)
        return own
