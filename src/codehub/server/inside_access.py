"""Start ``inside`` in workspaces for the API, by the runtime's ``exec``."""

from uuid import UUID

from codehub.api.dependencies import Leases
from codehub.runtimes.base import Runtime
from codehub.runtimes.exec_stream import ExecStream
from codehub.runtimes.inside import PROGRAM, find_inside
from codehub.server.settings.tree import RuntimeKind, Settings


class RuntimeInsideAccess:
    """``inside`` in the workspaces of one runtime."""

    def __init__(self, runtime: Runtime, *, shown_at: str, leases: Leases) -> None:
        """``shown_at``: where workspaces see the program."""
        self._runtime = runtime
        self._shown_at = shown_at
        self._leases = leases

    @property
    def leases(self) -> Leases:
        return self._leases

    async def request(self, workspace_id: UUID) -> ExecStream:
        return await self._runtime.exec(workspace_id, [self._shown_at, "request"])


def build_inside_access(
    settings: Settings, runtime: Runtime, *, leases: Leases
) -> RuntimeInsideAccess | None:
    """None: the program was not built, or no image brings it to pods."""
    shown_at = find_shown_at(settings)
    return None if shown_at is None else RuntimeInsideAccess(runtime, shown_at=shown_at, leases=leases)


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
