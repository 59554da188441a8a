"""Start, find, freeze and kill the processes of a cluster, whoever started them.

Every process carries the cluster's directory in its environment, and each part's process is written down with the time
it started. A part is found by its record, which a reused process number does not fool. What was started and not yet
written down when the starter died is found by its environment.
"""

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

MARK = "CODEHUB_TEST_CLUSTER_DIRECTORY"
END_SECONDS = 30


@dataclass(frozen=True)
class Process:
    """A process that cannot be mistaken for a later one with the same number."""

    pid: int
    started: int

    @classmethod
    def find(cls, pid: int) -> "Process | None":
        """The process with this number, unless it has ended (a zombie has)."""
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return None
        return None if fields[0] in {"Z", "X"} else cls(pid, int(fields[19]))

    @property
    def alive(self) -> bool:
        return Process.find(self.pid) == self

    def send(self, number: signal.Signals) -> None:
        """Nothing if it has ended, even if another one has its number now."""
        with suppress(ProcessLookupError):
            descriptor = os.pidfd_open(self.pid)
            try:
                if self.alive:
                    signal.pidfd_send_signal(descriptor, number)
            finally:
                os.close(descriptor)

    def wait_for_end(self) -> None:
        deadline = time.monotonic() + END_SECONDS
        while self.alive:
            if time.monotonic() > deadline:
                raise RuntimeError(f"process {self.pid} does not end")
            time.sleep(0.01)


class Processes:
    """The processes of the cluster in one directory."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def start(self, part: str, command: Sequence[str], *, inside: Process | None = None) -> Process:
        """Start a part in the background; ``inside`` enters the namespaces of that process first.

        Dying between the start and the record leaves a process that ``everything`` finds.
        """
        if inside is not None:
            return self.start_forking(part, [*enter(inside), *command])
        return self._write_down(part, Process.find(self._spawn(part, command).pid))

    def start_forking(self, part: str, command: Sequence[str], *, becomes: str | None = None) -> Process:
        """Start a part by way of ``nsenter`` or ``unshare``, and wait until it is the program it ``becomes``."""
        return self._write_down(part, _only_child(self._spawn(part, command), becomes))

    def _spawn(self, part: str, command: Sequence[str]) -> "subprocess.Popen[bytes]":
        for file in (self.log(part), self._record(part)):
            file.parent.mkdir(exist_ok=True)
        with self.log(part).open("ab") as log:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                start_new_session=True,
                env={**os.environ, MARK: str(self._root)},
            )

    def _write_down(self, part: str, process: Process | None) -> Process:
        if process is None:
            raise RuntimeError(f"{part} ended at once:\n{self.last_words(part)}")
        self._record(part).write_text(json.dumps([process.pid, process.started]))
        return process

    def find(self, part: str) -> Process | None:
        with suppress(FileNotFoundError, ValueError):
            process = Process(*json.loads(self._record(part).read_text()))
            if process.alive:
                return process
        return None

    def get(self, part: str) -> Process:
        if (process := self.find(part)) is None:
            raise RuntimeError(f"{part} does not run:\n{self.last_words(part)}")
        return process

    def stop(self, part: str, number: signal.Signals = signal.SIGKILL) -> None:
        """End a part and wait until it has ended; one that takes too long is killed. Idempotent."""
        if (process := self.find(part)) is None:
            return
        process.send(number)
        if number is signal.SIGTERM:
            process.send(signal.SIGCONT)
            with suppress(RuntimeError):  # an API server waits for its watches
                process.wait_for_end()
            process.send(signal.SIGKILL)
        process.wait_for_end()

    def everything(self) -> Iterator[Process]:
        """Whatever this cluster started, recorded or not, on this machine or inside of its nodes."""
        wanted = f"{MARK}={self._root}".encode()
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if wanted in (folder / "environ").read_bytes().split(b"\0") and folder.name != str(
                    os.getpid()
                ):
                    process = Process.find(int(folder.name))
                    if process is not None:
                        yield process

    def log(self, part: str) -> Path:
        return self._root / "logs" / f"{part}.log"

    def last_words(self, part: str) -> str:
        with suppress(FileNotFoundError):
            return self.log(part).read_text(errors="replace")[-3000:]
        return "(it said nothing)"

    def _record(self, part: str) -> Path:
        return self._root / "processes" / f"{part}.json"


def enter(process: Process) -> list[str]:
    """The beginning of a command that runs inside of a node.

    Not ``ip netns exec``: it mounts a fresh /sys, without the control groups.
    """
    return ["nsenter", f"--target={process.pid}", "--mount", "--net", "--pid", "--uts", "--ipc", "--"]


def _only_child(starter: "subprocess.Popen[bytes]", becomes: str | None) -> Process | None:
    """What ``nsenter`` and ``unshare`` run; they only wait for it."""
    deadline = time.monotonic() + END_SECONDS
    while starter.poll() is None and time.monotonic() < deadline:
        with suppress(OSError):
            children = Path(f"/proc/{starter.pid}/task/{starter.pid}/children").read_text().split()
            if children and becomes in {None, Path(f"/proc/{children[0]}/exe").readlink().name}:
                return Process.find(int(children[0]))
        time.sleep(0.005)
    return None
