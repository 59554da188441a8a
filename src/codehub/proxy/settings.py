"""Settings of the proxy.

Built by ``server/proxy`` from the settings tree of the whole server.
"""

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from codehub.kit.addresses import AddressSet

KIB = 1024


@dataclass(frozen=True)
class TcpAddress:
    """A TCP host and port."""

    host: str
    port: int


@dataclass(frozen=True)
class UnixAddress:
    """The path of a Unix socket.

    ``follow_links`` is False where a workspace can write: a symbolic link could lead to a socket hidden from it.
    """

    path: str
    follow_links: bool = True


SocketAddress = TcpAddress | UnixAddress


@dataclass(frozen=True, kw_only=True)
class ProxySettings:
    """Settings of one proxy. Times are seconds, sizes are bytes.

    ``public_url`` is the URL of the dashboard; with ``https`` cookies are Secure and named ``__Host-…``.
    ``base_domain`` gives each workspace an origin of its own, ``{id}.{base_domain}``; None: paths only. It
    may name a port (``localhost:8000``); without one it is the port of ``public_url``.
    ``internal_secret`` is shared with the API and signs the identity header.
    ``tab_script``: add the tab's script to HTML documents of workspaces.
    """

    api: SocketAddress
    internal_secret: bytes
    public_url: str = "http://127.0.0.1:8000"
    base_domain: str | None = None
    trusted_proxies: AddressSet = field(default_factory=AddressSet)
    tab_script: bool = True

    max_connections: int = 10_000
    max_head: int = 32 * KIB
    head_timeout: float = 10.0
    keep_alive: float = 75.0
    request_idle: float = 60.0  # without bytes of an unfinished request body
    api_request_timeout: float = 60.0  # for the whole body of an API request; these are small
    response_idle: float = 600.0  # without bytes of an unfinished response
    client_stall: float = 120.0  # with a full write buffer: the client does not read
    half_close_grace: float = 10.0  # without bytes after one side closed
    linger: float = 2.0  # reading and discarding after the last answer

    connect_timeout: float = 2.0
    probe_timeout: float = 5.0  # for the first line of an answer, while the waiting page waits
    connect_delays: tuple[float, ...] = (0.0, 0.3, 0.7)
    pool_idle: float = 15.0
    pool_size: int = 128  # idle connections kept for each address
    write_high: int = 256 * KIB
    write_low: int = 64 * KIB
    use_relay: bool = True  # for open WebSockets, where the library was built

    cache_ttl: float = 2.0
    miss_ttl: float = 1.0  # for "no such credential" and "no such workspace"
    cache_entries: int = 50_000
    touch_interval: float = 10.0
    lease_renewal: float = 30.0
    retry_after: int = 5

    @property
    def scheme(self) -> str:
        return urlsplit(self.public_url).scheme

    @property
    def secure(self) -> bool:
        return self.scheme == "https"

    @property
    def public_host(self) -> str:
        return (urlsplit(self.public_url).hostname or "").lower()

    @property
    def base_host(self) -> str | None:
        """``base_domain`` without its port."""
        return self.base_domain.partition(":")[0].lower() if self.base_domain else None

    def workspace_origin(self, label: str) -> str:
        """Return ``https://{label}.{base_domain}[:port]``."""
        port = urlsplit(self.public_url).port
        suffix = f":{port}" if port and ":" not in (self.base_domain or "") else ""
        return f"{self.scheme}://{label}.{self.base_domain}{suffix}"
