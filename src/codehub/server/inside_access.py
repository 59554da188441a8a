"""Start ``inside`` in workspaces for the API, by the runtime's ``exec``."""

from uuid import UUID

from codehub.api.dependencies import Leases
from codehub.runtimes.base import Address, Runtime
from codehub.runtimes.exec_stream import ExecStream
from codehub.runtimes.inside import PROGRAM, find_inside
from codehub.server.settings.tree import RuntimeKind, Settings


class RuntimeInsideAccess:
    """``inside`` in the workspaces of one runtime."""

    def __init__(
        self, runtime: Runtime, *, shown_at: str, leases: Leases, shares_network: bool = False
    ) -> None:
        """``shown_at``: where workspaces see the program. ``shares_network``: with each other and the machine."""
        self._runtime = runtime
        self._shown_at = shown_at
        self._leases = leases
        self._shares_network = shares_network

    @property
    def leases(self) -> Leases:
        return self._leases

    @property
    def shares_network(self) -> bool:
        return self._shares_network

    async def request(self, workspace_id: UUID) -> ExecStream:
        return await self._runtime.exec(workspace_id, [self._shown_at, "request"])

    async def command(self, workspace_id: UUID) -> ExecStream:
        return await self._runtime.exec(workspace_id, [self._shown_at, "command"])

    async def ide_port(self, workspace_id: UUID) -> int | None:
        endpoint = await self._runtime.address(workspace_id)
        return endpoint.port if isinstance(endpoint, Address) else None

    async def connect(self, workspace_id: UUID, port: int) -> ExecStream:
        return await self._runtime.exec(workspace_id, [self._shown_at, "connect", str(port)])

    async def terminal(self, workspace_id: UUID) -> ExecStream:
        return await self._runtime.exec(workspace_id, [self._shown_at, "terminal"])


def build_inside_access(
    settings: Settings, runtime: Runtime, *, leases: Leases
) -> RuntimeInsideAccess | None:
    """None: the program was not built, or no image brings it to pods."""
    shown_at = find_shown_at(settings)
    if shown_at is None:
        return None
    return RuntimeInsideAccess(
        runtime,
        shown_at=shown_at,
        leases=leases,
        shares_network=settings.runtime.kind is RuntimeKind.LOCAL,
    )


def find_shown_at(settings: Settings) -> str | None:
    """Where workspaces of this installation see ``inside``; None: they do not have it."""
    directory = find_inside()
    if directory is None:
        return None
    match settings.runtime.kind:
        case RuntimeKind.LOCAL:
            return str(directory / "inside")
        case RuntimeKind.DOCKER:
            return PROGRAM
        case RuntimeKind.KUBERNETES:
            return PROGRAM if settings.kubernetes.inside_image is not None else None
