"""Installed IDEs below the data directory: which there are, and one installation at a time.

    ides/NAME/VERSION/          one installation, whole when it has a file ``installed``; workspaces read it
    ide-state/NAME.lock         an flock: held while somebody installs, by CodeHub and by pip and npm
    ide-state/NAME.progress     what the holder of the lock is doing, for other processes to show

Several processes may look and install: replicas on one machine, and ``codehub ide install``. Whoever finds the lock
taken waits for its holder and looks again. A holder that is killed leaves a directory that is not whole, and a lock
that ends with its last process. The state is apart because sandboxes show ``ides``: a workspace could take a lock it
can read.
"""

import asyncio
import fcntl
import json
import os
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from codehub.domain.errors import EffectError, FailureCode
from codehub.kit.tasks import cancel_and_wait
from codehub.runtimes.base import InstallableImage, OnWait
from codehub.runtimes.local.ides.catalogue import CATALOGUE, Ide
from codehub.runtimes.local.ides.installing import IdeInstallError, Install, OnStep, install_ide
from codehub.runtimes.local.sandbox import IDES

MARK = "installed"
KEPT_VERSIONS = 2
"""The newest and the one before: workspaces that run may still use that."""
REPEAT_SECONDS = 1.0


@dataclass(frozen=True)
class IdeState:
    """What is known of one IDE. ``version``: of the installation in use; None: there is none.

    ``percent``: of an installation that runs now, by whoever; None: none does.
    """

    ide: Ide
    version: str | None
    percent: int | None = None
    step: str | None = None


class Installations:
    """The IDEs below one data directory. ``install`` is another than ``install_ide`` in tests alone."""

    def __init__(self, data_dir: Path, install: Install = install_ide) -> None:
        self._install = install
        self.directory = data_dir / IDES
        self._state = data_dir / "ide-state"
        self.log = data_dir / "logs" / "ide-install.log"
        self._running: dict[str, asyncio.Task[None]] = {}

    def find(self, ide: Ide) -> Path | None:
        """The directory of its pinned version, else of the newest other that is whole. Blocking."""
        whole = self._whole(ide)
        return next((path for path in whole if path.name == ide.version), whole[0] if whole else None)

    def state(self, ide: Ide) -> IdeState:
        """What is known of it now. Blocking."""
        found = self.find(ide)
        version = None if found is None else found.name
        if not _is_locked(self._lock(ide)):
            return IdeState(ide, version)
        try:
            told = json.loads(self._progress(ide).read_text())
            return IdeState(ide, version, percent=int(told["percent"]), step=str(told["step"]))
        except (OSError, ValueError, KeyError, TypeError):
            return IdeState(ide, version, percent=0)  # it has only begun

    async def describe(self, names: Collection[str]) -> list[InstallableImage]:
        """What people are told of these IDEs before they choose one."""
        return await asyncio.to_thread(lambda: [_describe(self.state(CATALOGUE[name])) for name in names])

    async def ensure(self, name: str, on_wait: OnWait = None) -> Path:
        """The directory to run this IDE from; installs it if there is none, and tells ``on_wait`` meanwhile.

        Raises ``EffectError``. A caller that is cancelled leaves the installation running: the next one needs it.
        """
        ide = CATALOGUE[name]
        if (found := await asyncio.to_thread(self.find, ide)) is not None:
            return found
        task = self._running.get(name)
        if task is None or task.done():
            task = asyncio.create_task(self.install(ide), name=f"install-{name}")
            self._running[name] = task
        while not task.done():
            if on_wait is not None:
                state = await asyncio.to_thread(self.state, ide)
                await on_wait(f"installing {ide.title} {state.percent or 0} %")
            await asyncio.wait([task], timeout=REPEAT_SECONDS)
        try:
            task.result()
        except IdeInstallError as error:
            raise EffectError(FailureCode.IMAGE_PULL_FAILED, str(error)) from error
        if on_wait is not None:
            await on_wait(None)
        found = await asyncio.to_thread(self.find, ide)
        if found is None:
            raise EffectError(FailureCode.IMAGE_PULL_FAILED, f"{ide.title} was installed, and is gone again")
        return found

    async def install(self, ide: Ide, on_step: OnStep = lambda percent, step: None) -> None:
        """Install the pinned version, unless it is there. Waits for another process that does. Idempotent.

        Raises ``IdeInstallError``. Cancelled or killed: the next one begins again in an empty directory.
        """
        place = self.directory / ide.name
        target = place / ide.version
        await asyncio.to_thread(_make_directories, place, self._state, self.log.parent)
        with _open_lock(self._lock(ide)) as lock_fd:
            await self._take_lock(lock_fd, ide, on_step)
            if (target / MARK).exists():
                return
            await asyncio.to_thread(shutil.rmtree, target, ignore_errors=True)
            target.mkdir()

            def tell(percent: int, step: str) -> None:
                _write(self._progress(ide), json.dumps({"percent": percent, "step": step}))
                on_step(percent, step)

            try:
                await self._install(ide, target, lock_fd=lock_fd, log=self.log, on_step=tell)
            except OSError as error:
                raise IdeInstallError(f"{ide.title} could not be installed: {error}") from error
            _write(target / MARK, ide.version)
            await asyncio.to_thread(self._remove_old, ide)

    async def close(self) -> None:
        """End what this process installs."""
        await cancel_and_wait(list(self._running.values()))

    def _lock(self, ide: Ide) -> Path:
        return self._state / f"{ide.name}.lock"

    def _progress(self, ide: Ide) -> Path:
        return self._state / f"{ide.name}.progress"

    async def _take_lock(self, lock_fd: int, ide: Ide, on_step: OnStep) -> None:
        """Wait for the lock, and say what its holder does. Polled: a blocked thread could not be cancelled."""
        while True:
            try:
                fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                state = await asyncio.to_thread(self.state, ide)
                on_step(state.percent or 0, state.step or "waiting for another process that installs it")
                await asyncio.sleep(REPEAT_SECONDS)

    def _whole(self, ide: Ide) -> list[Path]:
        """Whole installations, newest first."""
        try:
            found = [path.parent for path in (self.directory / ide.name).glob(f"*/{MARK}")]
            return sorted(found, key=lambda path: (path / MARK).stat().st_mtime, reverse=True)
        except OSError:
            return []

    def _remove_old(self, ide: Ide) -> None:
        for path in self._whole(ide)[KEPT_VERSIONS:]:
            (path / MARK).unlink()  # first: half of one must not count
            shutil.rmtree(path, ignore_errors=True)


def _describe(state: IdeState) -> InstallableImage:
    return InstallableImage(
        name=state.ide.name,
        title=state.ide.title,
        offered=state.ide.version,
        version=state.version,
        percent=state.percent,
        fetched_mb=state.ide.fetched_mb,
        disk_mb=state.ide.disk_mb,
    )


def _make_directories(*directories: Path) -> None:
    for directory in directories:
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise IdeInstallError(f"{directory} cannot be made: {error.strerror}.") from error


@contextmanager
def _open_lock(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _is_locked(path: Path) -> bool:
    """Whether somebody installs. A look takes a shared lock for a moment, which makes an installer look twice."""
    if not path.exists():
        return False
    with suppress(OSError), _open_lock(path) as descriptor:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _write(path: Path, text: str) -> None:
    """Replace the file at once: others read it."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    unfinished.write_text(text)
    unfinished.replace(path)
