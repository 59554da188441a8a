"""A network bridge that exists for a test, made and removed by the kernel's own calls: no tool is needed."""

import fcntl
import socket
import struct

_ADD, _REMOVE, _SET_FLAGS = 0x89A0, 0x89A1, 0x8914  # SIOCBRADDBR, SIOCBRDELBR, SIOCSIFFLAGS
_NAME_BYTES = 16


def add_bridge(name: str) -> None:
    _call(_ADD, _name(name))


def remove_bridge(name: str) -> None:
    """One that is up cannot be removed: down first."""
    _call(_SET_FLAGS, struct.pack(f"{_NAME_BYTES}sh14x", name.encode(), 0))
    _call(_REMOVE, _name(name))


def _name(name: str) -> bytes:
    given = name.encode()
    assert len(given) < _NAME_BYTES, name
    return given.ljust(_NAME_BYTES, b"\0")


def _call(request: int, argument: bytes) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, request, argument)
