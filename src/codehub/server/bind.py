"""Parse and bind the address CodeHub listens on.

The port is bound before anything slow starts, so that a port in use is reported at once. It is not listened on
yet: until the server is ready, callers are refused instead of left waiting.
"""

import errno
import ipaddress
import socket
from dataclasses import dataclass
from typing import Self

from codehub.domain.errors import CodeHubError


class PortTakenError(CodeHubError):
    """The port is in use by another program."""

    code = "port_taken"


class AddressUnusableError(CodeHubError):
    """This machine cannot listen on that address."""

    code = "address_unusable"


@dataclass(frozen=True)
class Bind:
    """Listening address ``host:port``; IPv6 in brackets. Port 0: the system chooses."""

    host: str
    port: int

    @classmethod
    def parse(cls, value: object) -> Self:
        if isinstance(value, cls):
            return value
        host, colon, port = str(value).strip().rpartition(":")
        if not colon or not port.isdecimal() or int(port) > 65535:
            raise ValueError("host:port is needed, as 127.0.0.1:8000")
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
        elif ":" in host:
            raise ValueError("an IPv6 address is written in brackets, as [::1]:8000")
        return cls(host=host or "0.0.0.0", port=int(port))

    @property
    def url(self) -> str:
        """An address a browser on this machine can open."""
        host = self.host
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return f"http://{host}:{self.port}"
        if address.is_unspecified:
            host = "::1" if address.version == 6 else "127.0.0.1"
        return f"http://[{host}]:{self.port}" if address.version == 6 else f"http://{host}:{self.port}"

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def take(bind: Bind, variable: str = "CODEHUB_BIND") -> socket.socket:
    """Bind a socket to the address, not yet listening. ``variable``: the setting that names it.

    Raises ``PortTakenError`` or ``AddressUnusableError`` with a sentence for people.
    """
    try:
        family, kind, proto, _, address = socket.getaddrinfo(
            bind.host, bind.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except socket.gaierror as error:
        raise AddressUnusableError(
            f"{variable}={bind}: there is no host of that name ({error.strerror}). "
            "Use an address of this machine, such as 127.0.0.1:8000."
        ) from error
    taken = socket.socket(family, kind, proto)
    try:
        # A port in TIME_WAIT is free; one that another program listens on is still refused.
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            taken.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        taken.bind(address)
    except OSError as error:
        taken.close()
        raise explain_bind_error(error, bind, variable) from error
    taken.setblocking(False)
    return taken


def explain_bind_error(error: OSError, bind: Bind, variable: str = "CODEHUB_BIND") -> CodeHubError:
    match error.errno:
        case errno.EADDRINUSE:
            return PortTakenError(
                f"Port {bind.port} on {bind.host} is taken by another program. "
                "Stop that one, or choose another port, for example "
                f"{variable}={Bind(bind.host, bind.port + 1 if bind.port < 65535 else 8000)}."
            )
        case errno.EACCES:
            return AddressUnusableError(
                f"{variable}={bind}: only root may listen on port {bind.port}. Choose one from 1024 on."
            )
        case _:
            return AddressUnusableError(
                f"{variable}={bind}: cannot listen there ({error.strerror}). "
                "Use an address of this machine, such as 127.0.0.1:8000."
            )


def bound_to(taken: socket.socket, bind: Bind) -> Bind:
    """The address with the port the system chose, if the port was 0."""
    return Bind(host=bind.host, port=taken.getsockname()[1])
