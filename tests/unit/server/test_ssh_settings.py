"""The SSH gateway is off unless a port is given, and people are told an address they can use."""

import pytest

from codehub.server.bind import Bind
from codehub.server.settings.tree import load_settings
from codehub.server.settings.variables import SettingsError


def test_there_is_no_gateway_by_default() -> None:
    assert load_settings({}).ssh.bind is None
    assert load_settings({"CODEHUB_SSH_BIND": ""}).ssh.bind is None


def test_people_are_told_where_it_is() -> None:
    ssh = load_settings({"CODEHUB_SSH_BIND": "0.0.0.0:2222"}).ssh
    assert ssh.bind == Bind("0.0.0.0", 2222)
    assert ssh.shown_address("https://hub.example.org", port=2222) == ("hub.example.org", 2222)
    ssh = load_settings({"CODEHUB_SSH_BIND": ":2222", "CODEHUB_SSH_ADDRESS": "ssh.example.org:22"}).ssh
    assert ssh.shown_address("https://hub.example.org", port=2222) == ("ssh.example.org", 22)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CODEHUB_SSH_BIND", "2222"),
        ("CODEHUB_SSH_ADDRESS", "hub.example.org"),
        ("CODEHUB_SSH_ADDRESS", "ann@hub.example.org:22"),
        ("CODEHUB_SSH_ADDRESS", "hub.example.org:port"),
    ],
)
def test_what_is_no_address_stops_the_start(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=name):
        load_settings({name: value})
