"""Somebody at a shell who reaches the workspaces of a running CodeHub with OpenSSH's own programs."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.instance import COMMAND, codehub, process_variables
from tests.support.people import ADMIN_PASSWORD
from tests.support.ports import free_port
from tests.support.waiting import until

SECONDS = 120.0


@dataclass(frozen=True)
class Ended:
    code: int | None
    output: str
    errors: str


@dataclass(frozen=True)
class SshShell:
    """``directory`` holds the configuration of ``codehub`` and of OpenSSH."""

    directory: Path

    @property
    def config(self) -> Path:
        return self.directory / "ssh-config"

    @property
    def variables(self) -> dict[str, str]:
        return {"XDG_CONFIG_HOME": str(self.directory), "HOME": str(self.directory)}

    async def sign_in(self, url: str) -> None:
        login = ("login", url, "-u", "admin", "--password-stdin")
        done = await codehub(*login, stdin=ADMIN_PASSWORD + "\n", **self.variables)
        assert done.code == 0, done.errors
        written = await codehub("config-ssh", "--yes", "--file", str(self.config), **self.variables)
        assert written.code == 0, written.errors

    async def codehub_ssh(self, *arguments: str) -> Ended:
        return await self.run(*COMMAND, "ssh", *arguments)

    async def openssh(self, program: str, *arguments: str) -> Ended:
        return await self.run(program, "-F", str(self.config), *arguments)

    async def run(self, *command: str) -> Ended:
        process = await self._start(*command)
        async with asyncio.timeout(SECONDS):
            output, errors = await process.communicate(b"")
        return Ended(process.returncode, output.decode(), errors.decode())

    @asynccontextmanager
    async def forwarding(self, name: str, port: int) -> AsyncIterator[int]:
        """A port of this machine that leads to a port of the workspace's own loopback."""
        ours = free_port()
        forward = ("-L", f"127.0.0.1:{ours}:127.0.0.1:{port}", "-o", "ExitOnForwardFailure=yes", "-N", name)
        process = await self._start("ssh", "-F", str(self.config), *forward)
        try:
            yield ours
        finally:
            process.kill()
            await process.communicate()

    async def _start(self, *command: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *command,
            env=process_variables(**self.variables),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )


async def first_line_of(port: int, request: bytes) -> bytes:
    """What a server says first, once somebody listens."""

    async def ask() -> bytes:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            return b""
        writer.write(request)
        line = await reader.readline()
        writer.close()
        return line

    return bytes(await until(ask, seconds=SECONDS, what="an answer through the forwarded port"))


async def use_everything(shell: SshShell, name: str, *, port: int, home: str) -> None:
    """A shell, exit codes, a terminal, scp both ways and a forwarded port, in a workspace with a shell."""
    ended = await shell.codehub_ssh(name, 'echo "in $PWD as $(id -u)"; exit 7')
    assert (ended.code, ended.output) == (7, f"in {home} as 1000\n"), ended
    ended = await shell.openssh("ssh", "-tt", f"{name}.codehub", "[ -t 0 ] && echo on a terminal; kill -9 $$")
    assert "on a terminal" in ended.output, ended
    sent = shell.directory / "sent"
    sent.write_bytes(bytes(range(256)) * 4096)
    ended = await shell.openssh("scp", str(sent), f"{name}.codehub:received")
    assert ended.code == 0, ended
    ended = await shell.openssh("scp", f"{name}.codehub:received", str(shell.directory / "back"))
    assert ended.code == 0, ended
    assert (shell.directory / "back").read_bytes() == sent.read_bytes()
    async with shell.forwarding(f"{name}.codehub", port) as ours:
        assert await first_line_of(ours, b"GET / HTTP/1.0\r\n\r\n") == b"HTTP/1.1 200 OK\r\n"
    ended = await shell.openssh("ssh", f"{name}.codehub", "echo x > /.codehub/inside")
    assert ended.code != 0, "the program can be overwritten"


async def use_without_shell(shell: SshShell, name: str, *, port: int) -> None:
    """The same in an image that has one program and no shell: commands are run directly, files by sftp."""
    ended = await shell.codehub_ssh(name, "/busybox-server id -u")
    assert (ended.code, ended.output) == (0, "1000\n"), ended
    ended = await shell.codehub_ssh(name, "/busybox-server false")
    assert ended.code == 1, ended
    ended = await shell.codehub_ssh(name)
    assert (ended.code, "no shell" in ended.errors) == (127, True), ended
    ended = await shell.openssh("scp", str(shell.config), f"{name}.codehub:received")
    assert ended.code == 0, ended
    ended = await shell.codehub_ssh(name, "/busybox-server cat received")
    assert ended.output == shell.config.read_text(), ended
    async with shell.forwarding(f"{name}.codehub", port) as ours:
        assert await first_line_of(ours, b"GET / HTTP/1.0\r\n\r\n") == b"HTTP/1.1 200 OK\r\n"
