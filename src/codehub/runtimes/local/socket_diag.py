"""Ask the kernel which sockets listen on a TCP port (netlink, ``sock_diag(7)``).

``/proc/net/tcp`` lists every connection of the machine and is built for each reader: 10 ms with a thousand of
them. Here the kernel looks at listening sockets alone and answers for one port. Needs no privilege. Without it (an
old kernel, a service that may not open netlink sockets) it raises ``OSError``, and the caller reads the tables.
"""

import os
import socket
import struct
from collections.abc import Iterator
from errno import EIO
from ipaddress import IPv4Address, IPv6Address, ip_address

_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_ERROR, _DONE = 2, 3  # message types
_REQUEST, _DUMP, _INTERRUPTED = 0x01, 0x300, 0x10  # flags
_ONLY_LISTENING = 1 << 10
_ANSWER_BYTES = 64 * 1024

_HEADER = struct.Struct("=IHHII")  # length, type, flags, sequence, port id
# family, protocol, extensions, padding, states; source and destination port, two addresses, interface, cookie
_QUESTION = struct.Struct("=BBBxI 2s2x 32x 4x 8x")
# family, state, timer, retransmissions; ports, source address, the rest of the same; five numbers, the last: inode
_SOCKET = struct.Struct("=B3x 4x 16s 16x 4x 8x 16x I")


def find_listening(port: int) -> list[tuple[IPv4Address | IPv6Address, int]]:
    """Address and inode of each socket that listens on this port, of any process."""
    with socket.socket(
        socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_SOCK_DIAG
    ) as kernel:
        families = (socket.AF_INET, socket.AF_INET6)
        return [each for family in families for each in _ask(kernel, family, port)]


def _ask(kernel: socket.socket, family: int, port: int) -> Iterator[tuple[IPv4Address | IPv6Address, int]]:
    question = _QUESTION.pack(family, socket.IPPROTO_TCP, 0, _ONLY_LISTENING, port.to_bytes(2, "big"))
    head = _HEADER.pack(_HEADER.size + len(question), _SOCK_DIAG_BY_FAMILY, _REQUEST | _DUMP, int(family), 0)
    kernel.sendto(head + question, (0, 0))
    for kind, sequence, body in _answers(kernel):
        if sequence != family:
            raise OSError(EIO, "the kernel answered another question")
        if kind == _ERROR:
            number = -struct.unpack_from("=i", body)[0]
            raise OSError(number, os.strerror(number))
        found_family, address, inode = _SOCKET.unpack_from(body)
        size = 4 if found_family == socket.AF_INET else 16
        yield ip_address(address[:size]), inode


def _answers(kernel: socket.socket) -> Iterator[tuple[int, int, bytes]]:
    """Type, sequence and body of each message, up to the end of the list."""
    while True:
        data, (sender, _groups) = kernel.recvfrom(_ANSWER_BYTES)
        if sender != 0:  # only the kernel is believed
            continue
        start = 0
        while start < len(data):
            length, kind, flags, sequence, _ = _HEADER.unpack_from(data, start)
            if flags & _INTERRUPTED or length < _HEADER.size:
                raise OSError(EIO, "the list changed while it was read")
            if kind == _DONE:
                return
            yield kind, sequence, data[start + _HEADER.size : start + length]
            start += (length + 3) & ~3
