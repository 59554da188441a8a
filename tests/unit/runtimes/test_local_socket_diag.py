"""The kernel's answer about one port is that of its tables, and a kernel without one is no failure."""

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from errno import EAFNOSUPPORT

import pytest

from codehub.runtimes.local import listeners as module
from codehub.runtimes.local.listeners import Listener, listeners, read_tables
from codehub.runtimes.local.socket_diag import find_listening


def listen(host: str, port: int = 0, *, dual: bool = False) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    if family == socket.AF_INET6:
        made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if dual else 1)
    made.bind((host, port))
    made.listen(128)
    return made


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def test_every_kind_of_listener_is_found_as_in_the_tables(stack: ExitStack) -> None:
    first = stack.enter_context(listen("127.0.0.1"))
    port = first.getsockname()[1]
    stack.enter_context(listen("127.0.0.1", port))  # two on one address
    stack.enter_context(listen("0.0.0.0", port))
    if socket.has_ipv6:
        try:
            stack.enter_context(listen("::1", port))
            stack.enter_context(listen("::", port, dual=True))
            stack.enter_context(listen("::ffff:127.0.0.1", port, dual=True))
        except OSError:
            pass  # a kernel without IPv6
    found = [Listener(address, inode) for address, inode in find_listening(port)]
    assert len(found) >= 3
    assert set(found) == set(read_tables(port))
    assert len(found) == len(read_tables(port))


def test_connections_and_closed_ports_are_no_listeners(stack: ExitStack) -> None:
    server = stack.enter_context(listen("127.0.0.1"))
    port = server.getsockname()[1]
    stack.enter_context(socket.create_connection(("127.0.0.1", port)))
    stack.enter_context(server.accept()[0])
    assert len(find_listening(port)) == 1
    server.close()
    assert find_listening(port) == []


def test_more_listeners_than_fit_into_one_message(stack: ExitStack) -> None:
    port = stack.enter_context(listen("127.0.0.1")).getsockname()[1]
    for _ in range(499):
        stack.enter_context(listen("127.0.0.1", port))
    assert len(find_listening(port)) == 500


def test_threads_get_answers_of_their_own(stack: ExitStack) -> None:
    ports = [stack.enter_context(listen("127.0.0.1")).getsockname()[1] for _ in range(8)]
    found: dict[int, int] = {}

    def ask(port: int) -> None:
        found[port] = sum(len(find_listening(port)) for _ in range(50))

    threads = [threading.Thread(target=ask, args=(port,)) for port in ports]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == dict.fromkeys(ports, 50)


def test_without_netlink_the_tables_are_read(stack: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
    port = stack.enter_context(listen("127.0.0.1")).getsockname()[1]

    def refuse(_port: int) -> list[tuple[object, int]]:
        raise OSError(EAFNOSUPPORT, "no netlink here")

    monkeypatch.setattr(module, "find_listening", refuse)
    assert [str(each.address) for each in listeners(port)] == ["127.0.0.1"]
