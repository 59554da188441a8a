"""Start ``enter``, which runs one command in the sandbox of a running workspace.

The namespaces are opened here, by the pid of the sandbox's first process, and compared afterwards with the recorded
process: a pid that was used again in between is found out. Its environment is that of the recorded process, which is
outside the sandbox and cannot be changed from inside.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import termios
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codehub.domain.errors import EffectError, FailureCode
from codehub.runtimes.exec_stream import TerminalSize
from codehub.runtimes.local.processes import ProcessIdentity, is_alive

_PROGRAM = str(Path(__file__).with_name("enter.py"))
_NAMESPACES = ("user", "mnt", "pid", "ipc")
_SECONDS = 30.0
_LINE_BYTES = 64 * 1024
_OOM_SCORE = "500"


class SandboxGone(Exception):
    """The workspace has ended."""


@dataclass(frozen=True)
class ExecOrder:
    """One command of one workspace. ``env`` is all of its environment."""

    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: str
    tty: TerminalSize | None


@dataclass
class Entering:
    """A started ``enter`` that has not answered yet."""

    child: "subprocess.Popen[bytes]"
    channel: socket.socket


@dataclass
class Entered:
    """What ``enter`` answered. ``pid``: the command's, a child of ours to be waited for."""

    pid: int
    terminal: int | None = None  # descriptor of the terminal's other end
    refusal: str = ""  # why nothing runs
    missing: bool = False  # there is no such program


def environment_of(leader: ProcessIdentity) -> dict[str, str]:
    """The environment a workspace was started with."""
    try:
        raw = Path(f"/proc/{leader.pid}/environ").read_bytes()
    except OSError as error:
        raise SandboxGone from error
    if not is_alive(leader):
        raise SandboxGone
    entries = (entry.partition(b"=") for entry in raw.split(b"\0") if b"=" in entry)
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in entries}


def open_namespaces(leader: ProcessIdentity, stack: ExitStack) -> dict[str, int]:
    """Descriptors of the sandbox's namespaces, closed by ``stack``."""
    try:
        children = Path(f"/proc/{leader.pid}/task/{leader.pid}/children").read_text().split()
        first = int(children[0])  # bubblewrap's other half, the first process in the sandbox
        found = {}
        for name in _NAMESPACES:
            found[name] = os.open(f"/proc/{first}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC)
            stack.callback(os.close, found[name])
        is_sandbox = os.fstat(found["pid"]).st_ino != os.stat("/proc/self/ns/pid").st_ino
    except (OSError, IndexError, ValueError) as error:
        raise SandboxGone from error
    if not is_sandbox or not is_alive(leader):
        raise SandboxGone
    return found


def begin_entering(namespaces: Mapping[str, int] | None, stdio: Sequence[int] | None) -> Entering:
    """Start ``enter``. Called in the event loop's thread.

    The command is told of its parent's death, and for the kernel the parent is the thread that started it: one of a
    pool may end any time.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with theirs:
        try:
            files = stdio or [subprocess.DEVNULL] * 3
            child = subprocess.Popen(
                [sys.executable, "-I", "-S", _PROGRAM, str(theirs.fileno())],
                stdin=files[0],
                stdout=files[1],
                stderr=files[2],
                env={"PATH": os.defpath},
                cwd="/",
                pass_fds=(theirs.fileno(), *(namespaces or {}).values()),
            )
        except OSError as error:
            ours.close()
            raise EffectError(FailureCode.EXEC_FAILED, f"cannot start a process: {error}") from error
    with suppress(OSError):  # when memory runs out the kernel shall kill a workspace, not CodeHub
        Path(f"/proc/{child.pid}/oom_score_adj").write_text(_OOM_SCORE)
    return Entering(child, ours)


def finish_entering(entering: Entering, order: ExecOrder, namespaces: Mapping[str, int] | None) -> Entered:
    """Give ``enter`` its order and read its answers. Blocking."""
    size = None if order.tty is None else [order.tty.columns, order.tty.rows]
    told = {
        "argv": list(order.argv),
        "env": dict(order.env),
        "cwd": order.cwd,
        "tty": size,
        "namespaces": None if namespaces is None else dict(namespaces),
    }
    with entering.channel as channel:
        channel.settimeout(_SECONDS)
        try:
            channel.sendall(json.dumps(told).encode())
            channel.shutdown(socket.SHUT_WR)
            return _read_answers(channel)
        except OSError as error:
            entering.child.kill()
            raise EffectError(FailureCode.EXEC_FAILED, f"the sandbox was not entered: {error}") from error
        finally:
            entering.child.wait()


def _read_answers(channel: socket.socket) -> Entered:
    """Read until the command runs, which closes its end of the channel, or has failed."""
    said, entered = b"", Entered(pid=0)
    while True:
        piece, descriptors, _, _ = socket.recv_fds(channel, _LINE_BYTES, 1)
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)
            if entered.terminal is None and _is_terminal(descriptor):
                entered.terminal = descriptor
            else:
                os.close(descriptor)
        if not piece:
            break
        said += piece
    for line in said.splitlines():
        answer: dict[str, Any] = json.loads(line)
        entered.pid = answer.get("pid", entered.pid)
        if "error" in answer:
            what = answer["what"]
            entered.refusal = f"{what}: {answer['error']}" if what else str(answer["error"])
            entered.missing = bool(answer["missing"])
    if not entered.pid:
        raise EffectError(FailureCode.EXEC_FAILED, entered.refusal or "the sandbox was not entered")
    return entered


def _is_terminal(descriptor: int) -> bool:
    """Whether it is a terminal: the file it was opened by is the workspace's."""
    try:
        termios.tcgetattr(descriptor)
    except termios.error:
        return False
    return True


def kill_child(pid: int) -> None:
    """Kill a command that was started for nobody, and reap it. Blocking."""
    with suppress(ProcessLookupError, ChildProcessError):
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
