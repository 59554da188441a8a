"""Find which process listens on a loopback port.

All local workspaces share this machine's loopback with each other and with CodeHub. A person may reach a port of
their workspace through the proxy, never one that another process listens on (the database's, another workspace's).
So a port counts as a workspace's own only while every socket that a connection could reach belongs to a process of
that workspace: the kernel lists listening sockets with their inodes, and each process its open sockets.

Processes are not isolated from each other (a terminal in a workspace can reach the same loopback). The invariant:
the proxy never leads a browser to another workspace's server.
"""

import os
import socket
import struct
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address

from codehub.runtimes.local.processes import Stat
from codehub.runtimes.local.socket_diag import find_listening

_LISTEN = "0A"
_V4, _V6 = ip_address("127.0.0.1"), ip_address("::1")
# Listening addresses that a connection may reach. A program that listens on "::" mostly accepts IPv4 too.
_REACHED_BY: dict[IPv4Address | IPv6Address, set[IPv4Address | IPv6Address]] = {
    _V4: {_V4, *map(ip_address, ("0.0.0.0", "::", "::ffff:127.0.0.1", "::ffff:0.0.0.0"))},
    _V6: {_V6, ip_address("::")},
}


@dataclass(frozen=True)
class Listener:
    address: IPv4Address | IPv6Address
    inode: int


def listeners(port: int) -> list[Listener]:
    """Every TCP socket that listens on this port, of any process.

    Pays for: POST → ready, 50 at once. Asked twice for each connection; reading the tables takes milliseconds.
    """
    try:
        return [Listener(address, inode) for address, inode in find_listening(port)]
    except OSError:
        return read_tables(port)


def read_tables(port: int) -> list[Listener]:
    """The same from ``/proc/net``, where the kernel answers no netlink question."""
    return [*_read_table("/proc/net/tcp", port), *_read_table("/proc/net/tcp6", port)]


def loopback_host(found: Iterable[Listener], own_inodes: AbstractSet[int]) -> str | None:
    """The loopback address where all listeners are one's own; None: there is none."""
    found = list(found)
    for address in map(str, _REACHED_BY):
        there = reached_at(address, found)
        if there:
            return address if all(each.inode in own_inodes for each in there) else None
    return None


def reached_at(host: str, found: Iterable[Listener]) -> list[Listener]:
    """The listeners that a connection to this loopback address may reach."""
    reached = _REACHED_BY[ip_address(host)]
    return [each for each in found if each.address in reached]


def socket_inodes(processes: Iterable[Stat]) -> set[int]:
    """Inodes of the sockets these processes have open. An ended process has none."""
    inodes: set[int] = set()
    for process in processes:
        directory = f"/proc/{process.pid}/fd"
        with suppress(OSError):
            for name in os.listdir(directory):
                with suppress(OSError, ValueError):
                    kind, _, inode = os.readlink(f"{directory}/{name}").partition(":")
                    if kind == "socket":
                        inodes.add(int(inode.strip("[]")))
    return inodes


def _read_table(path: str, port: int) -> Iterable[Listener]:
    suffix = f":{port:04X}"
    try:
        with open(path) as file:
            next(file)  # the column names
            rows = [line.split() for line in file if suffix in line]
    except FileNotFoundError:  # a kernel without IPv6
        return
    for row in rows:
        if row[3] == _LISTEN and row[1].endswith(suffix):
            yield Listener(_parse_address(row[1].partition(":")[0]), int(row[9]))


def _parse_address(text: str) -> IPv4Address | IPv6Address:
    """The kernel prints addresses as words of 32 bits in the machine's own byte order."""
    words = [int(text[start : start + 8], 16) for start in range(0, len(text), 8)]
    packed = struct.pack(f"={len(words)}I", *words)
    family = socket.AF_INET if len(words) == 1 else socket.AF_INET6
    return ip_address(socket.inet_ntop(family, packed))
