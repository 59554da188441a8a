"""Which loopback address is safe to connect to, given who listens where."""

from ipaddress import ip_address

import pytest

from codehub.runtimes.local.listeners import Listener, loopback_host

MINE, THEIRS = 1, 2


@pytest.mark.parametrize(
    ("found", "host"),
    [
        ({}, None),
        ({"127.0.0.1": MINE}, "127.0.0.1"),
        ({"0.0.0.0": MINE}, "127.0.0.1"),
        ({"::": MINE}, "127.0.0.1"),
        ({"::ffff:127.0.0.1": MINE}, "127.0.0.1"),
        ({"::1": MINE}, "::1"),
        ({"127.0.0.1": THEIRS}, None),
        ({"::1": THEIRS}, None),
        ({"192.0.2.1": MINE}, None),
        # Who gets the connection would be the kernel's choice.
        ({"127.0.0.1": MINE, "0.0.0.0": THEIRS}, None),
        ({"127.0.0.1": MINE, "::": THEIRS}, None),
        ({"0.0.0.0": THEIRS, "::1": MINE}, None),
        ({"127.0.0.1": MINE, "::1": THEIRS}, "127.0.0.1"),
        ({"127.0.0.1": MINE, "192.0.2.1": THEIRS}, "127.0.0.1"),
    ],
)
def test_only_where_everything_that_may_answer_is_ours(found: dict[str, int], host: str | None) -> None:
    listeners = [Listener(ip_address(address), inode) for address, inode in found.items()]
    assert loopback_host(listeners, {MINE}) == host
