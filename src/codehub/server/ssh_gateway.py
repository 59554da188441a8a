"""Serve the SSH gateway beside the API, where ``CODEHUB_SSH_BIND`` is given.

asyncssh is imported only then: it takes 30 MiB. The port is taken with the HTTP port, before anything slow starts.
"""

import contextlib
import socket
from base64 import b64decode
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING

import structlog

from codehub.api.dependencies import SshGatewayAddress
from codehub.api.state import AppState
from codehub.domain.ssh_keys import fingerprint_of
from codehub.kit.listening import stop_arrivals
from codehub.server import bind as binding
from codehub.server.settings.tree import ProcessRole, Settings
from codehub.services.ssh_host_keys import gateway_key_seed

if TYPE_CHECKING:
    from codehub.api.ssh.gateway.port import GatewayPort

log = structlog.get_logger(__name__)

VARIABLE = "CODEHUB_SSH_BIND"


@contextlib.contextmanager
def taken_port(settings: Settings) -> Iterator[tuple[Settings, socket.socket | None]]:
    """Take the gateway's port, if this process serves one. The settings then have the port the system chose."""
    bind = settings.ssh.bind
    if bind is None or ProcessRole.API not in settings.http.roles:
        yield settings, None
        return
    with contextlib.closing(binding.take(bind, VARIABLE)) as taken:
        bound = settings.ssh.model_copy(update={"bind": binding.bound_to(taken, bind)})
        yield settings.model_copy(update={"ssh": bound}), taken


def gateway_address(settings: Settings, *, secret: bytes) -> SshGatewayAddress | None:
    """How people reach the gateway, and its key, which is derived from the installation's secret."""
    if settings.ssh.bind is None:
        return None
    from codehub.api.ssh.gateway.port import public_key_of

    host, port = settings.ssh.shown_address(settings.base_url, port=settings.ssh.bind.port)
    host_key = public_key_of(gateway_key_seed(secret))
    return SshGatewayAddress(
        host=host, port=port, host_key=host_key, fingerprint=fingerprint_of(b64decode(host_key.split()[1]))
    )


def build_ssh_gateway(state: AppState, *, secret: bytes) -> "GatewayPort | None":
    """None: there is no gateway."""
    address = state.settings.ssh_gateway
    if address is None:
        return None
    from codehub.api.ssh.gateway.port import GatewayPort

    return GatewayPort(state, address, key_seed=gateway_key_seed(secret))


@contextlib.asynccontextmanager
async def serving_ssh(
    gateway: "GatewayPort | None", taken: socket.socket | None, settings: Settings
) -> AsyncIterator[None]:
    """Serve the gateway on a bound socket. At the end its connections are told so, and ended."""
    bind = settings.ssh.bind
    if gateway is None or taken is None or bind is None:
        yield
        return
    try:
        await gateway.start(taken)
    except OSError as error:  # another process listened first
        raise binding.explain_bind_error(error, bind, VARIABLE) from error
    log.info("ssh gateway ready", bind=str(bind))
    try:
        yield
    finally:
        await stop_arrivals(taken)
        await gateway.close()
