"""Connections to the SSH gateway are limited: strangers by address and in all, people by person."""

from uuid import uuid4

import pytest

from codehub.api.ssh.gateway.limits import MAX_PACED, ConnectionLimits, Maxima
from codehub.kit.addresses import AddressSet

MAXIMA = Maxima(strangers_of_address=2, strangers=5, of_person=2, all=7)


def limits(*trusted: str) -> ConnectionLimits:
    return ConnectionLimits(trusted=AddressSet(trusted), maxima=MAXIMA)


def test_strangers_are_limited_by_address() -> None:
    some = limits()
    assert [some.arrives("192.0.2.1") for _ in range(3)] == [True, True, False]
    assert some.arrives("::ffff:192.0.2.1") is False, "the same address"
    assert some.arrives("192.0.2.2")
    some.leaves("192.0.2.1")
    assert some.arrives("192.0.2.1")


def test_an_ipv6_network_is_one_address() -> None:
    some = limits()
    assert [some.arrives(f"2001:db8::{n}") for n in range(3)] == [True, True, False]
    assert some.arrives("2001:db8:0:1::1")


def test_strangers_are_limited_in_all() -> None:
    some = limits()
    assert [some.arrives(f"192.0.2.{n}") for n in range(6)] == [True] * 5 + [False]


def test_a_load_balancer_is_not_limited_by_address() -> None:
    some = limits("10.0.0.0/8")
    assert [some.arrives("10.1.2.3") for _ in range(6)] == [True] * 5 + [False]


def test_who_signed_in_is_no_stranger_any_more() -> None:
    some, ann = limits(), uuid4()
    for expected in (True, True, False):
        assert some.arrives("192.0.2.1")
        assert some.signs_in("192.0.2.1", ann) is expected
    some.signs_out(ann)
    some.signs_out(ann)
    assert some.arrives("192.0.2.1")
    assert some.signs_in("192.0.2.1", ann)


def test_there_is_a_limit_for_all_together() -> None:
    some = limits()
    for _ in range(7):
        assert some.arrives("192.0.2.1")
        some.signs_in("192.0.2.1", uuid4())
    assert some.arrives("192.0.2.1") is False


def test_those_of_an_address_that_come_fast_wait_for_their_turn() -> None:
    maxima = Maxima(at_once=3, each_second=10.0)
    some = ConnectionLimits(trusted=AddressSet(["10.0.0.0/8"]), maxima=maxima)
    turns = [some.turn_of("192.0.2.1", 100.0) for _ in range(6)]
    assert turns == pytest.approx([0, 0, 0, 0.1, 0.2, 0.3])
    assert some.turn_of("192.0.2.2", 100.0) == 0, "somebody else"
    assert [some.turn_of("10.1.2.3", 100.0) for _ in range(6)] == [0] * 6, "a load balancer"
    assert some.turn_of("192.0.2.1", 101.0) == 0, "a second later"


def test_addresses_are_forgotten() -> None:
    some = ConnectionLimits(trusted=AddressSet([]))
    for number in range(5000):
        some.turn_of(f"10.0.{number // 256}.{number % 256}", float(number))
    assert len(some._paced) <= MAX_PACED
