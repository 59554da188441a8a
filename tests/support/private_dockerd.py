"""A Docker engine of a test's own, to be killed as it pleases: own socket, own images, own everything.

As on any distribution, containers belong to containerd, a process beside the engine: an engine that is killed
leaves them running and finds them when it comes back (and then, by its defaults, ends them).
"""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.bridge import add_bridge, remove_bridge
from tests.support.docker_api import DockerApi
from tests.support.requirements import require_program

_SECONDS = 180
"""For an engine to answer or to end, on a machine that is busy with other things."""


class PrivateDockerd:
    """Needs root. It leaves the packet filter alone, which belongs to the machine's own engine."""

    def __init__(self) -> None:
        if os.geteuid() != 0:
            pytest.skip("needs root: only root can start a Docker engine")
        self._program = require_program("dockerd", package="docker.io")
        self.root = Path(tempfile.mkdtemp(prefix="chd-"))  # short: sockets live in it
        self._bridge = f"chd{self.root.name[-8:]}"
        add_bridge(self._bridge)
        self._containerd: subprocess.Popen[bytes] | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"unix://{self.root}/docker.sock"

    def start(self) -> None:
        """Returns when it answers."""
        if self._containerd is None:
            self._containerd = self._start_containerd()
        # What a killed engine left: the new one would take it for a running one.
        (self.root / "dockerd.pid").unlink(missing_ok=True)
        self._process = self._spawn(
            str(self._program),
            f"--host={self.address}",
            f"--containerd={self.root}/containerd.sock",
            f"--data-root={self.root}/data",
            f"--exec-root={self.root}/exec",
            f"--pidfile={self.root}/dockerd.pid",
            # Not "none": an engine that is told so removes docker0, which is the machine's own engine's.
            f"--bridge={self._bridge}",
            "--iptables=false",
            "--ip6tables=false",
        )
        deadline = time.monotonic() + _SECONDS
        while not self._answers():
            assert self._process.poll() is None, self._last_words()
            assert time.monotonic() < deadline, self._last_words()
            time.sleep(0.05)

    def kill(self) -> None:
        """kill -9. Its containers and their helpers live on for the moment."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def freeze(self) -> None:
        """SIGSTOP: calls are taken and nobody answers."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """End it politely, which ends its containers too, and remove everything it had."""
        for process in (self._process, self._containerd):
            if process is not None and process.poll() is None:
                process.terminate()
                try:
                    process.wait(_SECONDS)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
        self._kill_what_is_left()
        with suppress(OSError):
            remove_bridge(self._bridge)
        for mount in self._mounts():
            subprocess.run(["umount", "--lazy", mount], check=False, capture_output=True)
        shutil.rmtree(self.root, ignore_errors=True)

    def _kill_what_is_left(self) -> None:
        """An engine that is killed while it starts a container may forget it: its keeper runs for ever."""
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if f"{self.root}/containerd.sock".encode() not in (folder / "cmdline").read_bytes():
                    continue
                for child in (folder / "task" / folder.name / "children").read_text().split():
                    os.kill(int(child), signal.SIGKILL)
                os.kill(int(folder.name), signal.SIGKILL)

    def _mounts(self) -> list[str]:
        """Innermost first."""
        lines = Path("/proc/self/mountinfo").read_text().splitlines()
        points = [line.split()[4] for line in lines]
        return sorted((each for each in points if each.startswith(f"{self.root}/")), reverse=True)

    def _start_containerd(self) -> "subprocess.Popen[bytes]":
        config = self.root / "containerd.toml"
        config.write_text('version = 2\ndisabled_plugins = ["io.containerd.grpc.v1.cri"]\n')
        return self._spawn(
            str(require_program("containerd", package="containerd")),
            f"--config={config}",
            f"--root={self.root}/containerd",
            f"--state={self.root}/containerd-state",
            f"--address={self.root}/containerd.sock",
        )

    def _spawn(self, *command: str) -> "subprocess.Popen[bytes]":
        with (self.root / "log").open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)

    def _answers(self) -> bool:
        try:
            DockerApi(self.address).call("GET", "/_ping")
        except (OSError, AssertionError):
            return False
        return True

    def _last_words(self) -> str:
        return (self.root / "log").read_text(errors="replace")[-2000:]
