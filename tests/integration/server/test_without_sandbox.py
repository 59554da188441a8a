"""Where no sandbox can be made CodeHub does not start, unless a person says so and others are kept out."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.support.instance import Outcome, codehub, codehub_up

pytestmark = pytest.mark.timeout(240)

LOOPBACK, OTHERS = "127.0.0.1:0", "0.0.0.0:0"
NO_NAMESPACES = "#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n"


def path_without_bubblewrap(directory: Path) -> Path:
    """One directory with every program of this machine but bubblewrap; its packages come by ``apt-get``."""
    place = directory / "programs"
    place.mkdir()
    for source in map(Path, os.environ["PATH"].split(":")):
        for program in source.glob("*"):
            if program.name not in ("bwrap", "apt-get") and not (place / program.name).is_symlink():
                (place / program.name).symlink_to(program)
    (place / "apt-get").touch(mode=0o755)
    return place


def path_without_namespaces(directory: Path) -> Path:
    """The same, with a bubblewrap that may not make namespaces."""
    place = path_without_bubblewrap(directory)
    (place / "bwrap").write_text(NO_NAMESPACES)
    (place / "bwrap").chmod(0o755)
    return place


def assert_refused(outcome: Outcome, *words: str) -> None:
    assert outcome.code == 1, outcome
    assert "Traceback" not in outcome.errors + outcome.output
    for word in words:
        assert word in outcome.errors


async def sandbox_finding(**variables: str) -> dict[str, str]:
    doctor = await codehub("doctor", "--json", **variables)
    report = json.loads(doctor.output)
    [found] = [one for one in report["findings"] if one["what"] == "sandbox"]
    assert report["ok"] is (doctor.code == 0)
    assert (found["verdict"] != "bad") or doctor.code == 1
    return dict(found)


@pytest.mark.parametrize("command", ["up", "serve"])
@pytest.mark.parametrize("bind", [LOOPBACK, OTHERS])
async def test_without_bubblewrap_it_does_not_start(tmp_path: Path, command: str, bind: str) -> None:
    variables = {
        "CODEHUB_DATA_DIR": str(tmp_path / "data"),
        "CODEHUB_BIND": bind,
        "PATH": str(path_without_bubblewrap(tmp_path)),
    }
    outcome = await codehub(command, **variables)
    assert_refused(outcome, "bwrap", "is not installed", "become its administrator")
    assert_refused(
        outcome, "apt-get install bubblewrap", "CODEHUB_LOCAL_SANDBOX=off", "CODEHUB_RUNTIME=docker"
    )
    assert not (tmp_path / "data").exists(), "said before anything was made"
    found = await sandbox_finding(**variables)
    assert found["verdict"] == "bad"
    assert "is not installed" in found["detail"]
    assert "apt-get install bubblewrap" in found["advice"]


async def test_without_namespaces_it_does_not_start(tmp_path: Path) -> None:
    variables = {
        "CODEHUB_DATA_DIR": str(tmp_path / "data"),
        "CODEHUB_BIND": LOOPBACK,
        "PATH": str(path_without_namespaces(tmp_path)),
        "CODEHUB_LOCAL_SANDBOX": "auto",  # the default of earlier versions
    }
    outcome = await codehub("up", **variables)
    assert_refused(outcome, "bwrap: No permissions to create new namespace", "namespaces")
    assert_refused(outcome, "become its administrator", "CODEHUB_LOCAL_SANDBOX=off")
    assert "apt-get" not in outcome.errors, "installing it again would not help"
    found = await sandbox_finding(**variables)
    assert found["verdict"] == "bad"
    assert "No permissions to create new namespace" in found["detail"]


async def test_off_starts_for_this_machine_alone_and_says_what_it_means(tmp_path: Path) -> None:
    variables: dict[str, Any] = {
        "CODEHUB_LOCAL_SANDBOX": "off",
        "PATH": str(path_without_bubblewrap(tmp_path)),
    }
    async with codehub_up(tmp_path / "data", **variables) as instance:
        said = [line for line in instance.errors.splitlines() if "without a sandbox" in line]
        assert len(said) == 1
        assert "become its administrator" in said[0]
        assert "CODEHUB_LOCAL_SANDBOX=off" in said[0]
        assert await instance.end() == 0
    found = await sandbox_finding(CODEHUB_DATA_DIR=str(tmp_path / "data"), CODEHUB_BIND=LOOPBACK, **variables)
    assert found["verdict"] == "note"
    assert "become its administrator" in found["detail"]


@pytest.mark.parametrize(
    "others",
    [
        {"CODEHUB_BIND": OTHERS},
        {"CODEHUB_BIND": LOOPBACK, "CODEHUB_BASE_URL": "https://codehub.example.org"},
    ],
)
async def test_off_is_refused_where_others_are_served(tmp_path: Path, others: dict[str, str]) -> None:
    """Also with bubblewrap at hand: ``off`` would not use it."""
    variables = {"CODEHUB_DATA_DIR": str(tmp_path / "data"), "CODEHUB_LOCAL_SANDBOX": "off", **others}
    outcome = await codehub("serve", **variables)
    assert_refused(
        outcome, "CODEHUB_LOCAL_SANDBOX=off", "serves others", "become its administrator", "127.0.0.1"
    )
    assert not (tmp_path / "data").exists()
    found = await sandbox_finding(**variables)
    assert found["verdict"] == "bad"
    assert "CodeHub does not start" in found["advice"]
