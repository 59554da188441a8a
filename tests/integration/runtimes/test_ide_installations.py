"""IDEs that CodeHub installs: one installation at a time, whole or not at all, and workspaces that wait for it."""

import asyncio
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from codehub.domain.errors import EffectError, FailureCode
from codehub.kit.ids import uuid7
from codehub.runtimes.base import FencingToken, ResourceLimits
from codehub.runtimes.local import LocalRuntime, default_images
from codehub.runtimes.local.ides import installing
from codehub.runtimes.local.ides.catalogue import JUPYTERLAB, PLACEHOLDER, VSCODE, Ide, find_ide
from codehub.runtimes.local.ides.installations import MARK, Installations
from codehub.runtimes.local.ides.installing import IdeInstallError, OnStep, install_ide
from tests.support.local_environment import SERVER
from tests.support.waiting import until

TOKEN = FencingToken(1, 1)


class Recorded:
    """Installs a small server, and counts. ``go`` lets it end; ``error`` makes it fail."""

    def __init__(self, *, held: bool = False, error: IdeInstallError | None = None) -> None:
        self.began = 0
        self.go = asyncio.Event()
        self.error = error
        if not held:
            self.go.set()

    async def __call__(self, ide: Ide, directory: Path, *, lock_fd: int, log: Path, on_step: OnStep) -> None:
        assert not os.listdir(directory)
        self.began += 1
        (directory / "bin").mkdir()
        (directory / "bin/serve").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {SERVER} "$@"\n')
        (directory / "bin/serve").chmod(0o755)
        on_step(42, "fetching")
        await self.go.wait()
        if self.error is not None:
            raise self.error


async def test_two_who_want_it_install_it_once(tmp_path: Path) -> None:
    install = Recorded(held=True)
    one, other = (Installations(tmp_path, install) for _ in range(2))
    asked = [asyncio.create_task(each.ensure(VSCODE.name)) for each in (one, one, other)]
    await until(lambda: other.state(VSCODE).percent == 42)
    assert other.state(VSCODE).version is None
    install.go.set()
    found = await asyncio.gather(*asked)
    assert set(found) == {tmp_path / "ides" / VSCODE.name / VSCODE.version}
    assert install.began == 1
    assert one.state(VSCODE).percent is None


KILLED = """
import asyncio, os, subprocess, sys
from pathlib import Path
from codehub.runtimes.local.ides.catalogue import VSCODE
from codehub.runtimes.local.ides.installations import Installations

async def install(ide, directory, *, lock_fd, log, on_step):
    (directory / "half").write_text("")
    subprocess.Popen(["sleep", "300"], pass_fds=(lock_fd,), stdout=subprocess.DEVNULL)  # as npm does
    on_step(50, "fetching")
    print("half", flush=True)
    await asyncio.sleep(300)

asyncio.run(Installations(Path(sys.argv[1]), install).install(VSCODE))
"""


async def test_a_killed_installation_is_begun_again_when_nothing_of_it_writes_any_more(
    tmp_path: Path,
) -> None:
    killed = subprocess.Popen(  # noqa: ASYNC220 - killed as a shell would kill it
        [sys.executable, "-c", KILLED, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert killed.stdout is not None
    assert killed.stdout.readline() == "half\n"
    killed.kill()  # and not what it started, which holds the lock
    killed.wait()
    install = Recorded()
    installations = Installations(tmp_path, install)
    assert installations.find(VSCODE) is None
    asked = asyncio.create_task(installations.ensure(VSCODE.name))
    await until(lambda: installations.state(VSCODE).percent == 50)
    assert install.began == 0
    os.killpg(killed.pid, signal.SIGKILL)
    found = await asked
    assert not (found / "half").exists()
    assert install.began == 1


async def test_a_failure_is_a_sentence_and_the_next_one_tries_again(tmp_path: Path) -> None:
    install = Recorded(error=IdeInstallError("The indexes do not answer."))
    installations = Installations(tmp_path, install)
    with pytest.raises(EffectError, match="The indexes do not answer") as failed:
        await installations.ensure(VSCODE.name)
    assert failed.value.failure is FailureCode.IMAGE_PULL_FAILED
    install.error = None
    assert (await installations.ensure(VSCODE.name)).is_dir()


async def test_an_older_version_is_used_until_somebody_upgrades_and_two_are_kept(tmp_path: Path) -> None:
    installations = Installations(tmp_path, Recorded())
    for index, version in enumerate(("1.0", "1.1")):
        await installations.install(replace(VSCODE, version=version))
        mark = tmp_path / "ides" / VSCODE.name / version / MARK
        os.utime(mark, (time.time() - 100 + index,) * 2)
    assert (await installations.ensure(VSCODE.name)).name == "1.1"
    assert installations.state(VSCODE).version == "1.1"
    await installations.install(VSCODE)
    assert (await installations.ensure(VSCODE.name)).name == VSCODE.version
    kept = {path.parent.name for path in (tmp_path / "ides" / VSCODE.name).glob(f"*/{MARK}")}
    assert kept == {"1.1", VSCODE.version}


@pytest.fixture
async def sandboxed(tmp_path: Path) -> AsyncIterator[tuple[LocalRuntime, Recorded]]:
    install = Recorded(held=True)
    runtime = LocalRuntime(
        tmp_path / "data",
        "one",
        {VSCODE.name: f"{PLACEHOLDER}/bin/serve {{port}}"},
        job_command=[sys.executable],
        archive_url=tmp_path.as_uri(),
        settle_seconds=30,
    )
    runtime.ides = Installations(tmp_path / "data", install)
    await runtime.prepare()
    yield runtime, install
    await runtime.stop_all()
    await runtime.close()


async def test_a_workspace_waits_for_its_ide_says_so_and_cannot_change_it(
    sandboxed: tuple[LocalRuntime, Recorded], tmp_path: Path
) -> None:
    runtime, install = sandboxed
    workspace_id = uuid7()
    await runtime.provision(workspace_id, token=TOKEN)
    told: list[str | None] = []

    async def on_wait(reason: str | None) -> None:
        told.append(reason)

    starting = asyncio.create_task(
        runtime.start(
            workspace_id,
            token=TOKEN,
            image_ref=VSCODE.name,
            env={},
            limits=ResourceLimits(),
            on_wait=on_wait,
        )
    )
    await until(lambda: "installing VS Code 42 %" in told)
    install.go.set()
    await starting
    assert told[-1] is None
    assert await runtime.address(workspace_id) is not None
    program = tmp_path / "data/ides" / VSCODE.name / VSCODE.version / "bin/serve"
    written = await runtime.exec(workspace_id, ["/bin/sh", "-c", f"echo >> {shlex.quote(str(program))}"])
    assert (await written.wait()).code != 0
    hidden = await runtime.exec(workspace_id, ["/bin/sh", "-c", f"ls {tmp_path / 'data/ide-state'}"])
    assert (await hidden.wait()).code != 0


async def test_an_ide_that_cannot_be_fetched_says_what_it_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:1/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    steps: list[str] = []
    with pytest.raises(
        IdeInstallError, match="JupyterLab could not be fetched: the package indexes"
    ) as failed:
        await Installations(tmp_path).install(JUPYTERLAB, lambda percent, step: steps.append(step))
    assert str(tmp_path / "ides/jupyterlab") in str(failed.value)
    assert steps == ["preparing Python", "fetching JupyterLab"]
    assert (tmp_path / "logs/ide-install.log").stat().st_size > 0


def test_an_archive_with_another_checksum_is_refused(tmp_path: Path) -> None:
    (tmp_path / f"code-server-{VSCODE.version}.tgz").write_bytes(b"something else")
    with pytest.raises(IdeInstallError, match="is not what CodeHub was made with"):
        installing._unpack(tmp_path)


async def test_a_disk_that_is_too_small_is_found_out_before(tmp_path: Path) -> None:
    greedy = replace(JUPYTERLAB, disk_mb=10**9)
    with pytest.raises(IdeInstallError, match="JupyterLab needs"):
        await install_ide(
            greedy, tmp_path, lock_fd=0, log=tmp_path / "log", on_step=lambda percent, step: None
        )


def test_installers_see_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "DATABASE_URL",
        "CODEHUB_ADMIN_PASSWORD",
        "AWS_SECRET_ACCESS_KEY",
        "https_proxy",
        "PIP_INDEX_URL",
    ):
        monkeypatch.setenv(name, "x")
    environment = installing._environment()
    assert {"https_proxy", "PIP_INDEX_URL", "PATH"} <= set(environment)
    assert not {"DATABASE_URL", "CODEHUB_ADMIN_PASSWORD", "AWS_SECRET_ACCESS_KEY"} & set(environment)


def test_what_is_not_found_here_can_be_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert "code-server" not in default_images()
    assert default_images(installable=True)["code-server"].startswith(PLACEHOLDER)
    assert find_ide("vscode") is VSCODE
    assert find_ide("emacs") is None
