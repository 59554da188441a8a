"""``inside ssh`` runs commands and shells for OpenSSH as its own server does."""

import asyncio
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.openssh import HOST, OpenSsh, configure
from tests.support.requirements import require_bubblewrap, require_inside

DEADLINE_SECONDS = 60


def test_output_errors_and_exit_codes_are_kept_apart(openssh: OpenSsh) -> None:
    done = openssh.run("cat; echo problem >&2; exit 42", stdin=b"in\0put\xff")
    assert (done.returncode, done.stdout, done.stderr) == (42, b"in\0put\xff", b"problem\n")
    assert openssh.run("kill -KILL $$").returncode == 255  # what OpenSSH's client makes of a signal
    assert openssh.run("true").returncode == 0


def test_a_shell_is_a_login_shell_at_home(openssh: OpenSsh) -> None:
    (openssh.home / ".profile").write_text("export FROM_PROFILE=yes\n")
    done = openssh.run(options=["-T"], stdin=b"echo $FROM_PROFILE; pwd; exit 3\n")
    assert done.returncode == 3
    assert done.stdout.decode().split() == ["yes", str(openssh.home)]


def test_variables_are_sent(openssh: OpenSsh) -> None:
    done = openssh.run("echo $LANG $OWN $SSH_CONNECTION", options=["-o", "SetEnv=OWN=mine LANG=ko_KR.UTF-8"])
    assert done.stdout.split()[:2] == [b"ko_KR.UTF-8", b"mine"]
    assert done.stdout.split()[2:]  # programs ask it whether they run over SSH


def test_only_modern_algorithms_are_offered(openssh: OpenSsh) -> None:
    for option in ("Ciphers=aes128-cbc", "Ciphers=aes128-ctr", "KexAlgorithms=diffie-hellman-group14-sha256"):
        assert openssh.run("true", options=["-o", option]).returncode == 255
    assert openssh.run("true", options=["-o", "Ciphers=chacha20-poly1305@openssh.com"]).returncode == 0


def test_another_host_key_is_another_host(openssh: OpenSsh) -> None:
    known = openssh.directory / "known_hosts"
    other = "AAAAC3NzaC1lZDI1NTE5AAAAIEhostkeyOfSomebodyElseWhichIsNotTheSameKeyAA"
    known.write_text(f"{HOST} ssh-ed25519 {other}\n")
    assert openssh.run("true").returncode == 255


class Screen:
    """A terminal with OpenSSH in it, as a person has one."""

    def __init__(self, openssh: OpenSsh, *arguments: str) -> None:
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.execvpe("ssh", openssh.command("ssh", *arguments, HOST), openssh.environment)
        self.seen = b""

    def type(self, text: bytes) -> None:
        os.write(self.terminal, text)

    def wait_for(self, expected: bytes, *, typing: bytes = b"") -> None:
        """Wait until this is shown. ``typing`` is typed each second: a shell may miss a key between two programs."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while expected not in self.seen:
            assert time.monotonic() < deadline, self.seen
            if select.select([self.terminal], [], [], 1.0)[0]:
                self.seen += os.read(self.terminal, 65536)
            elif typing:
                self.type(typing)
        self.seen = self.seen.partition(expected)[2]

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        os.kill(self.pid, signal.SIGWINCH)

    def end(self) -> int:
        try:
            while True:
                self.seen += os.read(self.terminal, 65536)
        except OSError:
            pass
        os.close(self.terminal)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def test_a_terminal_has_a_size_that_changes_and_keys_that_interrupt(openssh: OpenSsh) -> None:
    (openssh.home / ".profile").write_text("PS1='ready> '\n")
    screen = Screen(openssh)
    screen.wait_for(b"ready> ")
    screen.resize(123, 45)
    screen.type(b"until [ \"$(stty size)\" = '45 123' ]; do :; done; echo resiz''ed\r")
    screen.wait_for(b"resized")
    screen.type(b'sh -c \'trap "echo interr"upted INT; echo wait""ing; sleep 600\'\r')
    screen.wait_for(b"waiting\r\n")
    screen.type(b"\x03")
    screen.wait_for(b"interrupted", typing=b"\x03")
    screen.wait_for(b"ready> ", typing=b"\x03")  # the first key may have come before the sleep had begun
    screen.type(b'test -t 0 && test "$SSH_TTY" = "$(tty)" && echo term\'\'inal\r')
    screen.wait_for(b"terminal")
    screen.type(b"exit 5\r")
    assert screen.end() == 5


def test_what_a_connection_started_ends_with_it(openssh: OpenSsh) -> None:
    started = openssh.run(
        "setsid sh -c 'trap \"\" TERM HUP; echo $$ > daemon; while :; do sleep 1; done' </dev/null >/dev/null 2>&1 &"
        "nohup sleep 600 </dev/null >/dev/null 2>&1 & echo $! > nohup;"
        "until [ -s daemon ]; do sleep 0.05; done"
    )
    assert started.returncode == 0
    wait_until(lambda: not any(runs(openssh.home / name) for name in ("daemon", "nohup")))


async def test_a_client_that_is_killed_leaves_nothing_either(openssh: OpenSsh) -> None:
    async with openssh.running(
        HOST, "(sleep 600 & echo $! > child; wait) & echo $! > parent; wait"
    ) as client:
        await asyncio.to_thread(wait_until, lambda: runs(openssh.home / "child"))
        client.kill()
    await asyncio.to_thread(wait_until, lambda: not runs(openssh.home / "child"))
    assert not runs(openssh.home / "parent")


def test_what_is_to_be_kept_is_kept(tmp_path: Path) -> None:
    openssh = configure(tmp_path, [str(require_inside())], keep=True)
    openssh.run("nohup sleep 600 </dev/null >/dev/null 2>&1 & echo $! > kept")
    try:
        assert runs(openssh.home / "kept")
    finally:
        os.kill(int((openssh.home / "kept").read_text()), signal.SIGKILL)


@pytest.fixture
def bare(tmp_path: Path) -> OpenSsh:
    """A workspace whose image has no shell, no tools, no /etc/passwd."""
    inside = require_inside()
    bubblewrap = str(require_bubblewrap())
    sandbox = [bubblewrap, "--unshare-pid", "--ro-bind", str(inside.parent), "/.codehub", "--proc", "/proc"]
    return configure(tmp_path, [*sandbox, "--dev", "/dev", "--tmpfs", "/tmp", "--", "/.codehub/inside"])


def test_an_image_without_a_shell_runs_programs_and_moves_files(bare: OpenSsh, tmp_path: Path) -> None:
    assert bare.run("/.codehub/inside", "ports").stdout.startswith(b"[")
    shell = bare.run(options=["-T"])
    assert shell.returncode == 127
    assert b"this image has no shell" in shell.stderr
    assert b"needs a shell for |" in bare.run("a | b").stderr
    (tmp_path / "file").write_bytes(b"content")
    batch = f"put {tmp_path}/file /tmp/file\nget /tmp/file {tmp_path}/back\n"
    moved = subprocess.run(
        bare.command("sftp", "-b", "-", HOST), input=batch.encode(), capture_output=True, check=False
    )
    assert moved.returncode == 0, moved.stderr
    assert (tmp_path / "back").read_bytes() == b"content"


def runs(pid_file: Path) -> bool:
    """Whether the process named in a file runs; one that has ended and was not collected does not."""
    try:
        pid = int(pid_file.read_text())
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (OSError, ValueError):
        return False


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
