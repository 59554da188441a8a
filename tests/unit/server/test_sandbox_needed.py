"""When local workspaces must have a sandbox, and what it has to hide outside the data directory."""

from pathlib import Path

import pytest

from codehub.runtimes.local.sandbox_check import NOT_INSTALLED
from codehub.server.doctor.lifetimes import POSTGRESQL, mended_until
from codehub.server.sandbox_rule import find_switch, mending, private_directories, serves_others
from codehub.server.settings.tree import LocalSandbox, load_settings


@pytest.mark.parametrize(
    ("variables", "others"),
    [
        ({}, False),
        ({"CODEHUB_BIND": "[::1]:8000"}, False),
        ({"CODEHUB_BIND": "localhost:8000"}, False),
        ({"CODEHUB_BASE_URL": "http://127.0.0.1:8000"}, False),
        ({"CODEHUB_BIND": "0.0.0.0:8000"}, True),
        ({"CODEHUB_BIND": "[::]:8000"}, True),
        ({"CODEHUB_BIND": "192.0.2.1:8000"}, True),
        ({"CODEHUB_BIND": "codehub.example.org:8000"}, True),
        ({"CODEHUB_BASE_URL": "https://codehub.example.org"}, True),
        (
            {"CODEHUB_BASE_URL": "https://codehub.example.org", "CODEHUB_BASE_DOMAIN": "ws.example.org"},
            True,
        ),
    ],
)
def test_who_is_served(variables: dict[str, str], others: bool) -> None:
    assert serves_others(load_settings(variables)) is others


@pytest.mark.parametrize(
    ("word", "meaning"),
    [("auto", LocalSandbox.REQUIRED), (" Required", LocalSandbox.REQUIRED), ("OFF", LocalSandbox.OFF)],
)
def test_words_of_earlier_versions_are_read(word: str, meaning: LocalSandbox) -> None:
    assert load_settings({}).runtime.local_sandbox is LocalSandbox.REQUIRED
    assert load_settings({"CODEHUB_LOCAL_SANDBOX": word}).runtime.local_sandbox is meaning


@pytest.mark.parametrize(
    ("manager", "command"),
    [
        ("apt-get", "apt-get install bubblewrap"),
        ("dnf", "dnf install bubblewrap"),
        ("apk", "apk add bubblewrap"),
        ("emerge", "Install the package bubblewrap"),
    ],
)
def test_the_install_command_is_the_machines_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, manager: str, command: str
) -> None:
    (tmp_path / manager).touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    said = mending(NOT_INSTALLED)
    assert command in said
    assert ("sudo" in said) is (manager != "emerge")


@pytest.mark.parametrize(
    ("name", "value", "switch"),
    [
        (
            "kernel/apparmor_restrict_unprivileged_userns",
            "1\n",
            "kernel.apparmor_restrict_unprivileged_userns=0",
        ),
        ("kernel/apparmor_restrict_unprivileged_userns", "0\n", None),
        ("kernel/unprivileged_userns_clone", "0\n", "kernel.unprivileged_userns_clone=1"),
        ("user/max_user_namespaces", "0\n", "user.max_user_namespaces=15000"),
        ("user/max_user_namespaces", "96350\n", None),
    ],
)
def test_the_switch_that_forbids_namespaces_is_named(
    tmp_path: Path, name: str, value: str, switch: str | None
) -> None:
    (tmp_path / name).parent.mkdir()
    (tmp_path / name).write_text(value)
    assert find_switch(tmp_path) == switch


def test_archives_elsewhere_and_login_files_are_private(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    settings = load_settings({"ARCHIVE_URL": "file:///srv/with%20space/archives"})
    assert private_directories(settings) == (tmp_path / "codehub", Path("/srv/with space/archives"))
    remote = load_settings({"ARCHIVE_URL": "s3://bucket/prefix"})
    assert private_directories(remote) == (tmp_path / "codehub",)


def test_how_long_something_is_mended() -> None:
    end = POSTGRESQL[18]
    assert mended_until(end, today=end) == "mended until 2030-11"
    assert mended_until(end, today=end.replace(year=2031)) == "NOT mended since 2030-11"
    assert "not known" in mended_until(None, today=end)
