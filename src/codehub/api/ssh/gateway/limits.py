"""Count the gateway's connections, and refuse what is too many.

Strangers are limited by address and in all, and those of an address that come fast wait for their turn; people who have
signed in are limited by person. Behind a load balancer
all come from one address: those of ``CODEHUB_TRUSTED_PROXIES`` are not limited by address. Counts are of one process.
"""

import ipaddress
from collections import Counter
from dataclasses import dataclass
from typing import TypeVar
from uuid import UUID

from codehub.kit.addresses import AddressSet

Key = TypeVar("Key")

LOGIN_SECONDS = 30.0
MAX_TRIES = 10
"""Keys that one connection may try: an agent offers all it has."""

MAX_PACED = 1024
"""Addresses that are remembered before those whose turn is over are forgotten."""

MAX_CHANNELS = 16
"""Open at a time on one connection, as a shared one (ControlMaster) has several."""


@dataclass(frozen=True)
class Maxima:
    """How many connections may be open at a time."""

    strangers_of_address: int = 20
    strangers: int = 200
    of_person: int = 64
    all: int = 2000
    at_once: int = 10
    """Of an address, before others of it wait for their turn."""
    each_second: float = 10.0
    """Of an address, after those. A handshake takes the processor some milliseconds."""


class ConnectionLimits:
    """Connections of this process, by what is known of them."""

    def __init__(self, *, trusted: AddressSet, maxima: Maxima | None = None) -> None:
        self._trusted = trusted
        self._maxima = maxima or Maxima()
        self._strangers: Counter[str] = Counter()
        self._people: Counter[UUID] = Counter()
        self._paced: dict[str, float] = {}  # by address, when the turn of all who came so far is over

    def arrives(self, address: str) -> bool:
        """Count a stranger, unless there are too many. Whoever was counted must leave or sign in."""
        network = self._network_of(address)
        strangers = self._strangers.total()
        of_address = self._strangers[network] if network else 0
        if (
            of_address >= self._maxima.strangers_of_address
            or strangers >= self._maxima.strangers
            or strangers + self._people.total() >= self._maxima.all
        ):
            return False
        self._strangers[network] += 1
        return True

    def turn_of(self, address: str, now: float) -> float:
        """Return in how many seconds it is the turn of a stranger who was counted. ``now``: monotonic."""
        network = self._network_of(address)
        if not network:
            return 0.0
        if len(self._paced) >= MAX_PACED:
            self._paced = {each: over for each, over in self._paced.items() if over > now}
        seconds = 1.0 / self._maxima.each_second
        over = max(self._paced.get(network, now), now) + seconds
        self._paced[network] = over
        return max(0.0, over - now - self._maxima.at_once * seconds)

    def leaves(self, address: str) -> None:
        """Take back the count of a stranger."""
        _take_one(self._strangers, self._network_of(address))

    def signs_in(self, address: str, user_id: UUID) -> bool:
        """Count a stranger as this person from now on. False: the person has too many, and is counted all the same."""
        self.leaves(address)
        self._people[user_id] += 1
        return self._people[user_id] <= self._maxima.of_person

    def signs_out(self, user_id: UUID) -> None:
        """Take back the count of a person's connection."""
        _take_one(self._people, user_id)

    def _network_of(self, address: str) -> str:
        """What an address is counted by; of IPv6 its network, as one machine has all of that. Empty: trusted."""
        if address in self._trusted:
            return ""
        try:
            parsed = ipaddress.ip_address(address.partition("%")[0])
        except ValueError:
            return "unknown"
        if isinstance(parsed, ipaddress.IPv6Address):
            if parsed.ipv4_mapped is not None:
                return str(parsed.ipv4_mapped)
            return str(ipaddress.ip_network((parsed, 64), strict=False))
        return str(parsed)


def _take_one(counter: Counter[Key], key: Key) -> None:
    counter[key] -= 1
    if counter[key] <= 0:
        del counter[key]  # or every address ever seen would stay
