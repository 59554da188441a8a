"""The units for machines without containers: systemd takes them, and the backup's commands do what they say."""

import os
import re
import subprocess
from pathlib import Path

from tests.support.requirements import require_program

UNITS = Path(__file__).parents[3] / "deploy" / "systemd"
PROGRAM = "/opt/codehub/.venv/bin/codehub"


def shell_of(unit: str, key: str) -> str:
    """The script of an ``Exec…=/bin/sh -c '…'``, as systemd passes it on."""
    (found,) = re.findall(rf"^{key}=/bin/sh -c '(.*)'$", (UNITS / unit).read_text(), re.MULTILINE)
    return str(found).replace("%%", "%")


def test_systemd_finds_nothing_wrong(tmp_path: Path) -> None:
    verify = require_program("systemd-analyze", package="systemd")
    program = tmp_path / "codehub"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    units = [tmp_path / each.name for each in UNITS.iterdir()]
    for unit in units:
        unit.write_text((UNITS / unit.name).read_text().replace(PROGRAM, str(program)))
    done = subprocess.run([verify, "verify", *units], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_backup_has_a_new_name_and_the_newest_fourteen_stay(tmp_path: Path) -> None:
    for day in range(20):
        old = tmp_path / f"codehub-2026-01-{day:02}-033000.backup"
        old.write_text("old")
        os.utime(old, (day, day))
    stranger = tmp_path / "notes.txt"
    stranger.write_text("kept")
    program = tmp_path / "codehub"
    program.write_text('#!/bin/sh\n[ "$1" = backup ] && echo new > "$2"\n')
    program.chmod(0o755)
    env = {"PATH": os.environ["PATH"], "STATE_DIRECTORY": str(tmp_path)}
    unit = "codehub-backup.service"
    for script in (
        shell_of(unit, "ExecStart").replace(PROGRAM, str(program)),
        shell_of(unit, "ExecStartPost"),
    ):
        subprocess.run(["/bin/sh", "-c", script], env=env, check=True)
    left = sorted(tmp_path.glob("*.backup"))
    assert len(left) == 14
    assert [each.read_text() for each in left] == ["old"] * 13 + ["new\n"]
    assert stranger.exists()
