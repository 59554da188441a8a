"""Sets of addresses, and who is the client behind a chain of proxies."""

import pytest

from codehub.kit.addresses import AddressSet, client_of


@pytest.mark.parametrize(
    ("address", "is_in"),
    [
        ("10.42.7.9", True),
        ("10.43.0.1", False),
        ("192.0.2.1", True),
        ("192.0.2.2", False),
        ("::ffff:192.0.2.1", True),
        ("fd00::1", True),
        ("fe80::1", False),
        ("unknown", False),
        ("", False),
        ("10.42.7.9:80", False),
    ],
)
def test_addresses_and_networks(address: str, is_in: bool) -> None:
    assert (address in AddressSet(["10.42.0.0/16", "192.0.2.1", "fd00::/8"])) is is_in


def test_an_empty_set_has_nobody() -> None:
    assert "127.0.0.1" not in AddressSet()


@pytest.mark.parametrize("wrong", ["10.42.0.1/16", "localhost", "10.0.0.0/33"])
def test_what_is_no_address_is_refused_by_name(wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong):
        AddressSet([wrong])


@pytest.mark.parametrize(
    ("chain", "client"),
    [
        ([], ""),
        (["203.0.113.9"], "203.0.113.9"),
        (["203.0.113.9", "10.0.0.1"], "203.0.113.9"),
        (["6.6.6.6", "203.0.113.9", "10.0.0.2", "10.0.0.1"], "203.0.113.9"),
        (["10.0.0.3", "10.0.0.1"], "10.0.0.3"),
        (["203.0.113.9", "junk", "10.0.0.1"], "junk"),
    ],
)
def test_the_client_is_the_last_whom_nobody_vouches_for(chain: list[str], client: str) -> None:
    assert client_of(chain, AddressSet(["10.0.0.0/24"])) == client
