"""When local workspaces must have a sandbox, and what it has to hide outside the data directory."""

from pathlib import Path

import pytest

from codehub.server.doctor.lifetimes import POSTGRESQL, mended_until
from codehub.server.runtime_choice import private_directories, serves_others
from codehub.server.settings.tree import load_settings


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
