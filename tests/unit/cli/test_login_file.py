"""Where a person is signed in: addresses, the file, and what goes above it."""

import json
import os
import stat
from pathlib import Path

import pytest

from codehub.cli import login_file
from codehub.cli.failures import CommandError, ExitCode
from codehub.cli.login_file import SavedLogin, get_login, normal_url


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "codehub" / "login.json"
    monkeypatch.setattr(login_file, "file_path", lambda: path)
    return path


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("https://hub.example.org", "https://hub.example.org"),
        ("https://Hub.example.org/", "https://hub.example.org"),
        ("hub.example.org:8443", "https://hub.example.org:8443"),
        ("localhost:8000", "http://localhost:8000"),
        ("127.0.0.1:8000", "http://127.0.0.1:8000"),
        ("http://[::1]:8000/", "http://[::1]:8000"),
        ("https://example.org/codehub/?x=1#/workspaces", "https://example.org/codehub"),
    ],
)
def test_addresses(given: str, url: str) -> None:
    assert normal_url(given) == url


@pytest.mark.parametrize(
    "given", ["", "https://", "ftp://x", "https://ann:pw@x", "https://x:99999", "file:///etc"]
)
def test_no_addresses(given: str) -> None:
    with pytest.raises(CommandError) as raised:
        normal_url(given)
    assert raised.value.exit_code == ExitCode.USAGE


def test_the_file_is_ours_alone_and_replaced_as_a_whole(config: Path) -> None:
    before = os.umask(0)
    try:
        login_file.store(SavedLogin("https://a", "chp_1", "ann", "id-1"))
        login_file.store(SavedLogin("https://b", "chp_2", "ann", "id-2"))
    finally:
        os.umask(before)
    assert stat.S_IMODE(config.stat().st_mode) == 0o600
    assert stat.S_IMODE(config.parent.stat().st_mode) == 0o700
    assert login_file.find_stored() == SavedLogin("https://b", "chp_2", "ann", "id-2")
    assert [each.name for each in config.parent.iterdir()] == ["login.json"]
    login_file.forget()
    login_file.forget()
    assert login_file.find_stored() is None


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", json.dumps({"url": 1, "token": "x"})])
def test_a_broken_file_is_said_to_be_so(config: Path, content: str) -> None:
    config.parent.mkdir()
    config.write_text(content)
    with pytest.raises(CommandError, match="sign in again"):
        get_login({})


def test_what_goes_above_what() -> None:
    with pytest.raises(CommandError) as raised:
        get_login({})
    assert raised.value.exit_code == ExitCode.NOT_SIGNED_IN
    login_file.store(SavedLogin("https://a", "chp_1", "ann", "id-1"))
    assert get_login({}).token == "chp_1"
    assert get_login({"CODEHUB_URL": "https://a/"}).token == "chp_1"
    assert get_login({"CODEHUB_TOKEN": "chp_9"}) == SavedLogin("https://a", "chp_9")
    assert get_login({"CODEHUB_URL": "https://b", "CODEHUB_TOKEN": "chp_9"}) == SavedLogin(
        "https://b", "chp_9"
    )
    with pytest.raises(CommandError, match="not signed in at https://b"):
        get_login({"CODEHUB_URL": "https://b"})
