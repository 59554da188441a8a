"""SSH for tests of the API: host keys, and no way into any workspace."""

from base64 import b64encode
from uuid import UUID

from codehub.api.dependencies import Leases, SshTunnel
from codehub.domain.errors import EffectError, FailureCode


class NoTunnels:
    """Knows host keys, and opens nothing."""

    @property
    def leases(self) -> Leases:
        raise NotImplementedError

    async def host_key(self, workspace_id: UUID) -> str:
        return f"ssh-ed25519 {b64encode(workspace_id.bytes).decode()}"

    async def open(self, workspace_id: UUID, *, keep: bool) -> SshTunnel:
        raise EffectError(FailureCode.LOCAL_RUNTIME_ERROR, f"no tunnel to {workspace_id} (keep: {keep})")
