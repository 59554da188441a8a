"""What a sandboxed workspace can reach of CodeHub: nothing, wherever CodeHub keeps it."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from codehub.runtimes.local import sandbox, sandbox_check
from codehub.runtimes.local.runtime import LocalRuntime
from codehub.runtimes.local.sandbox import Sandbox
from codehub.runtimes.local.sandbox_check import SandboxLeaksError, check_sandbox
from codehub.server.data_dir import DataDir
from tests.support.instance import codehub_up, processes_of
from tests.support.requirements import require_bubblewrap

pytestmark = pytest.mark.timeout(240)

NO_COVERS = """#!/bin/sh
# A bubblewrap that covers nothing: it only goes where it is told.
while [ "$1" != -- ]; do
    [ "$1" = --chdir ] && cd "$2"
    shift
done
shift
exec "$@"
"""

REACH = """
import glob, json, os, socket, sys
reached = []
for path in json.loads(sys.argv[1]):
    if os.path.isdir(path) and os.listdir(path) or os.path.isfile(path):
        reached.append(path)
    try:
        socket.socket(socket.AF_UNIX).connect(path)
        reached.append("socket " + path)
    except OSError:
        pass
for path in glob.glob("/proc/[0-9]*/environ"):
    if b"DATABASE_URL" in open(path, "rb").read():
        reached.append(path)
for path in sys.argv[2:]:
    try:
        open(os.path.join(path, "written"), "w").close()
        reached.append("writing " + path)
    except OSError:
        pass
print(json.dumps(reached))
"""


async def inside(sandbox: Sandbox, home: Path, *arguments: str) -> list[str]:
    process = await asyncio.create_subprocess_exec(
        *sandbox.prefix(home),
        *(sys.executable, "-I", "-S", "-c", REACH, *arguments),
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await process.communicate()
    assert process.returncode == 0
    reached: list[str] = json.loads(output)
    return reached


@pytest.mark.parametrize("name", ["data", "long" * 30, "with space 집"])
async def test_nothing_of_a_running_codehub_is_reached_from_inside(tmp_path: Path, name: str) -> None:
    bubblewrap = str(require_bubblewrap())
    data_dir = DataDir(tmp_path / name)
    logins = tmp_path / "config"
    logins.mkdir()
    (logins / "login.json").write_text("{}")
    async with codehub_up(data_dir.path) as instance:
        home = data_dir.path / "volumes" / "trial"
        home.mkdir()
        sockets = data_dir.sockets()
        wanted = [
            *(str(path) for path in sockets.rglob("*")),
            *(str(path) for path in data_dir.secrets.iterdir()),
            *(str(data_dir.path / place) for place in ("logs", "postgres", "run", "secrets", "archives")),
            *(str(sockets), str(logins), str(logins / "login.json")),
        ]
        assert any(".s.PGSQL" in path for path in wanted)
        assert any("redis.sock" in path for path in wanted)
        assert any("api-" in path for path in wanted)
        program = str(Path(__file__).parents[3] / "src" / "codehub")
        sandbox = Sandbox(bubblewrap, data_dir.path, (logins,))
        assert await inside(sandbox, home, json.dumps(wanted), program, sys.prefix, "/etc") == []
        assert await inside(sandbox, home, "[]", str(home)) == [f"writing {home}"]
        found = await asyncio.to_thread(check_sandbox, sandbox)
        assert (found.works, found.leaks) == (True, ())
        assert await instance.end() == 0
    assert not (data_dir.path / "sockets").exists()
    assert processes_of(data_dir.path) == {}


async def test_a_sandbox_that_hides_nothing_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{fake_bubblewrap(tmp_path, NO_COVERS)}:{os.environ['PATH']}")
    runtime = LocalRuntime(
        *(tmp_path / "data", "one", {"any": "true {port}"}), job_command=["false"], archive_url="file:///no"
    )
    try:
        with pytest.raises(SandboxLeaksError, match="volumes"):
            await runtime.prepare()
    finally:
        await runtime.close()


async def test_the_check_names_what_it_reached(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    (data_dir / "secrets").mkdir(parents=True)
    (data_dir / "secrets" / "password").write_text("of the database")
    bubblewrap = str(fake_bubblewrap(tmp_path, NO_COVERS) / "bwrap")
    found = await asyncio.to_thread(check_sandbox, Sandbox(bubblewrap, data_dir))
    assert str(data_dir / "secrets" / "password") in found.leaks
    assert "processes outside, with their environment" in found.leaks
    assert any(leak.startswith("writing to") for leak in found.leaks)
    assert os.listdir(data_dir) == ["secrets"], "nothing of the trial remains"


def fake_bubblewrap(directory: Path, script: str) -> Path:
    """A directory for the front of PATH, with another program of that name."""
    place = directory / "programs"
    place.mkdir()
    (place / "bwrap").write_text(script)
    (place / "bwrap").chmod(0o755)
    return place


def test_a_package_in_a_fresh_directory_is_shown_whole_and_read_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clone below /tmp: CodeHub starts there too, and what SSH starts in a sandbox is found."""
    require_bubblewrap()
    package = tmp_path / "clone" / "src" / "codehub"
    (package / "runtimes").mkdir(parents=True)
    monkeypatch.setattr(sandbox, "PACKAGE", package)
    monkeypatch.setattr(sandbox_check, "PACKAGE", package)
    data_dir = tmp_path / "data"
    data_dir.mkdir()
    made = sandbox_check.make_sandbox(data_dir, ())
    home = data_dir / "home"
    home.mkdir()
    inside = f"test -d {package}/runtimes && ! touch {package}/changed"
    done = subprocess.run([*made.prefix(home), "sh", "-c", inside], check=False)
    assert done.returncode == 0
