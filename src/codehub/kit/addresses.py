"""Sets of IP addresses and networks, and the client's address behind a chain of proxies."""

from collections.abc import Iterable, Sequence
from ipaddress import ip_address, ip_network


class AddressSet:
    """A set of IP addresses, written as addresses (``10.0.0.7``) or networks (``10.0.0.0/8``).

    Raises ``ValueError``, which names the value, for what is neither. Text that is no address is in no set.
    """

    def __init__(self, written: Iterable[str] = ()) -> None:
        self.written = tuple(written)
        self._networks = tuple(ip_network(each) for each in self.written)

    def __contains__(self, address: object) -> bool:
        if not self._networks:
            return False
        try:
            found = ip_address(str(address))
        except ValueError:
            return False
        plain = getattr(found, "ipv4_mapped", None) or found
        return any(plain in network for network in self._networks)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AddressSet) and set(self._networks) == set(other._networks)

    def __hash__(self) -> int:
        return hash(frozenset(self._networks))


def client_of(chain: Sequence[str], trusted: AddressSet) -> str:
    """Return the client's address from ``X-Forwarded-For``: the last one that is no trusted proxy.

    Each proxy adds its peer at the end, so what stands before the last untrusted address may be forged. If all
    are trusted, the first one is the client.
    """
    for address in reversed(chain):
        if address not in trusted:
            return address
    return chain[0] if chain else ""
