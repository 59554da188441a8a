"""Run one command in a workspace's sandbox: a program of its own, started for each exec.

It joins the namespaces of the sandbox, gives up every capability as the sandbox does, and becomes the command. So
the command has the files, the processes and the rights of the IDE, and no more. It imports the standard library alone
and nothing after it has joined, because the files it would read are then the workspace's.

* The process that is in the sandbox is a child of CodeHub's, not of this one (``CLONE_PARENT``): CodeHub waits for
  it, and no process is left between the two.
* Until it becomes the command nobody may look at it or trace it from inside (``PR_SET_DUMPABLE``): it still has what
  came from outside, the channel for example.
* A terminal is opened in the sandbox, by its own ``/dev/ptmx``, with the command's own rights.
* If CodeHub dies the command gets SIGHUP, as from a line that was cut.

The order comes as JSON on a socket; the pid, the terminal or the reason why nothing runs go back on it.
"""

import ctypes
import errno
import fcntl
import json
import os
import signal
import socket
import struct
import sys
import termios
from typing import Any, NoReturn

_CLONE_NEWNS, _CLONE_NEWIPC, _CLONE_NEWUSER, _CLONE_NEWPID = 0x00020000, 0x08000000, 0x10000000, 0x20000000
_CLONE_PARENT = 0x00008000
_NS_GET_USERNS = 0xB701
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_CAPBSET_DROP = 1, 4, 24
_PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 38, 47, 4
_CAPABILITY_VERSION_3 = 0x20080522
_SYS_CLONE = {"x86_64": 56, "aarch64": 220}.get(os.uname().machine, -1)
_TIOCGPTN, _TIOCSPTLCK = 0x80045430, 0x40045431
_FIRST_OWN_FD = 3

libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    channel = socket.socket(fileno=int(sys.argv[1]))
    order = json.loads(_read_all(channel))
    try:
        _call("prctl", _PR_SET_DUMPABLE, 0, 0, 0, 0)
        if order["namespaces"]:
            _join(order["namespaces"])
        pid = _fork_beside()
    except OSError as error:
        _report(channel, error, "the sandbox cannot be entered")
    if pid:
        channel.sendall(json.dumps({"pid": pid}).encode() + b"\n")
        os._exit(0)
    try:
        _become(order, channel)
    except OSError as error:
        _report(channel, error, None)


def _join(namespaces: "dict[str, int]") -> None:
    """Join namespaces by their descriptors.

    First the user namespace that owns the mounts, in which we then may join the others; last the one processes run in,
    which bubblewrap makes within the first. Run by root, bubblewrap makes none.
    """
    ours = os.stat("/proc/self/ns/user").st_ino
    owner = fcntl.ioctl(namespaces["mnt"], _NS_GET_USERNS)
    joined = os.fstat(owner).st_ino
    if joined != ours:
        _call("setns", owner, _CLONE_NEWUSER)
    for name, kind in (("ipc", _CLONE_NEWIPC), ("pid", _CLONE_NEWPID), ("mnt", _CLONE_NEWNS)):
        _call("setns", namespaces[name], kind)
    if os.fstat(namespaces["user"]).st_ino not in (ours, joined):
        _call("setns", namespaces["user"], _CLONE_NEWUSER)
    for descriptor in (owner, *namespaces.values()):
        os.close(descriptor)


def _fork_beside() -> int:
    """Fork a process whose parent is our parent. Returns 0 in it."""
    libc.syscall.restype = ctypes.c_long
    zero = ctypes.c_ulong(0)
    flags = ctypes.c_ulong(_CLONE_PARENT | signal.SIGCHLD)
    pid = int(libc.syscall(ctypes.c_long(_SYS_CLONE), flags, zero, zero, zero, zero))
    if pid < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return pid


def _become(order: "dict[str, Any]", channel: socket.socket) -> None:
    os.setsid()
    if order["namespaces"]:
        _give_up_capabilities()
    if order["tty"]:
        columns, rows = order["tty"]
        _open_terminal(columns, rows, channel)
    os.umask(0o022)
    try:
        os.chdir(str(order["cwd"]))
    except OSError as error:
        _report(channel, error, f"{order['cwd']} cannot be entered")
    _call("prctl", _PR_SET_PDEATHSIG, signal.SIGHUP, 0, 0, 0)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them
        signal.signal(number, signal.SIG_DFL)
    os.set_inheritable(channel.fileno(), False)  # its end tells CodeHub that the command runs
    argv = order["argv"]
    os.execvpe(argv[0], argv, order["env"])


def _give_up_capabilities() -> None:
    """Give up what bubblewrap has taken from the IDE, and the right to gain any of it by a program's bits."""
    for capability in range(64):
        if libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) < 0:
            break  # the kernel knows no more
    _call("prctl", _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    header = struct.pack("<Ii", _CAPABILITY_VERSION_3, 0)
    _call("capset", header, bytes(24))
    _call("prctl", _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def _open_terminal(columns: int, rows: int, channel: socket.socket) -> None:
    """Make the sandbox's own terminal ours, and send its other end to CodeHub."""
    master = os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
    fcntl.ioctl(master, _TIOCSPTLCK, struct.pack("i", 0))
    (number,) = struct.unpack("I", fcntl.ioctl(master, _TIOCGPTN, struct.pack("I", 0)))
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    slave = os.open(f"/dev/pts/{number}", os.O_RDWR | os.O_NOCTTY)
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
    socket.send_fds(channel, [b"{}\n"], [master])
    for descriptor in (0, 1, 2):
        os.dup2(slave, descriptor)
    os.close(master)
    if slave >= _FIRST_OWN_FD:
        os.close(slave)


def _report(channel: socket.socket, error: OSError, what: "str | None") -> NoReturn:
    """Say why nothing runs, and end."""
    missing = what is None and error.errno in (errno.ENOENT, errno.ENOTDIR)
    told = {"error": error.strerror or str(error), "what": what, "missing": missing}
    channel.sendall(json.dumps(told).encode() + b"\n")
    os._exit(1)


def _call(name: str, *arguments: object) -> None:
    if getattr(libc, name)(*arguments) < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def _read_all(channel: socket.socket) -> bytes:
    pieces = []
    while piece := channel.recv(65536):
        pieces.append(piece)
    return b"".join(pieces)


if __name__ == "__main__":
    main()
