"""Inside its sandbox tar reaches the volume and nothing else."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from codehub.archives.sandbox import NEEDED_VERSION, confinement, sandbox_version


def run_confined(script: str, directory: Path, *, writable: bool) -> subprocess.CompletedProcess[str]:
    shell = shutil.which("sh")
    assert shell is not None
    with confinement(directory, program=shell, writable=writable) as confine:
        return subprocess.run(
            [shell, "-c", script], preexec_fn=confine, capture_output=True, text=True, cwd="/", check=False
        )


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    (tmp_path / "outside").write_text("secret")
    volume = tmp_path / "volume"
    (volume / "folder").mkdir(parents=True)
    (volume / "file").write_text("mine")
    (volume / "door").symlink_to(tmp_path / "outside")
    return volume


def test_where_there_is_no_landlock_there_is_no_confinement(
    volume: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("codehub.archives.sandbox.sandbox_version", lambda: NEEDED_VERSION - 1)
    assert run_confined(f"cat {volume}/file", volume, writable=False).stdout == "mine"


if sandbox_version() >= NEEDED_VERSION:  # a property of the kernel: `codehub doctor` tells

    @pytest.mark.parametrize(
        "script",
        [
            "cat {outside}",
            "cat {volume}/door",
            "echo x > {outside}",
            "echo x > {volume}/door",
            "ls {volume}/..",
            "ln {outside} {volume}/stolen",
            "mv {volume}/file {outside}2",
            "cat /etc/passwd",
        ],
    )
    def test_nothing_outside_can_be_reached(volume: Path, script: str) -> None:
        outside = volume.parent / "outside"
        done = run_confined(script.format(volume=volume, outside=outside), volume, writable=True)
        assert done.returncode != 0
        assert outside.read_text() == "secret"
        assert sorted(os.listdir(volume)) == ["door", "file", "folder"]

    def test_unpacking_may_do_what_it_needs(volume: Path) -> None:
        script = "cd {0} && echo y > new && ln new folder/hard && ln -s /x link && mkfifo pipe && rm file"
        assert run_confined(script.format(volume), volume, writable=True).returncode == 0

    @pytest.mark.parametrize("script", ["echo x > {0}/file", "rm {0}/file", "mkdir {0}/new"])
    def test_packing_may_only_read(volume: Path, script: str) -> None:
        assert run_confined(script.format(volume), volume, writable=False).returncode != 0
        assert run_confined(f"cat {volume}/file", volume, writable=False).stdout == "mine"
