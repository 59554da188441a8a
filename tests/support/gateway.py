"""The SSH gateway for tests: on a port of its own, and OpenSSH's client as somebody without our command uses it."""

import asyncio
import contextlib
import os
import socket
import subprocess
from base64 import b64decode
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

from fastapi import FastAPI

from codehub.api.dependencies import SshGatewayAddress
from codehub.api.ssh.gateway.limits import Maxima
from codehub.api.ssh.gateway.port import GatewayPort, public_key_of
from codehub.domain.ssh_keys import fingerprint_of
from codehub.services.ssh_host_keys import gateway_key_seed

SECRET = b"secret"
SECONDS = 120.0


@contextlib.contextmanager
def gateway_socket() -> Iterator[socket.socket]:
    """A bound socket: its port is known before anything listens."""
    with contextlib.closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        taken.setblocking(False)
        yield taken


def address_of_gateway(taken: socket.socket) -> SshGatewayAddress:
    key = public_key_of(gateway_key_seed(SECRET))
    fingerprint = fingerprint_of(b64decode(key.split()[1]))
    return SshGatewayAddress("127.0.0.1", taken.getsockname()[1], key, fingerprint)


@contextlib.asynccontextmanager
async def serve_gateway(
    app: FastAPI, taken: socket.socket | None, maxima: Maxima | None = None
) -> AsyncIterator[GatewayPort | None]:
    """The gateway of this application; without a socket, none."""
    if taken is None:
        yield None
        return
    gateway = GatewayPort(
        app.state.codehub, address_of_gateway(taken), key_seed=gateway_key_seed(SECRET), maxima=maxima
    )
    await gateway.start(taken)
    try:
        yield gateway
    finally:
        await gateway.close()


def make_key(path: Path, kind: str = "ed25519", *options: str) -> str:
    """Make a key pair; returns the public key."""
    command = ["ssh-keygen", "-q", "-t", kind, "-N", "", "-C", "ann@laptop", "-f", str(path), *options]
    subprocess.run(command, check=True, capture_output=True)
    return path.with_name(path.name + ".pub").read_text()


@dataclass(frozen=True)
class PlainSsh:
    """Somebody's OpenSSH, with one key and no CodeHub command."""

    directory: Path
    username: str
    gateway: SshGatewayAddress

    @classmethod
    def create(cls, directory: Path, username: str, gateway: SshGatewayAddress) -> "PlainSsh":
        """Make a key and a configuration. The gateway's key is known; those of workspaces are kept when first seen."""
        directory.mkdir()
        make_key(directory / "key")
        known = directory / "known_hosts"
        known.write_text(f"[{gateway.host}]:{gateway.port} {gateway.host_key}\n")
        (directory / "config").write_text(
            f"Host *\n"
            f"  UserKnownHostsFile {known}\n"
            f"  GlobalKnownHostsFile /dev/null\n"
            f"  IdentityFile {directory}/key\n"
            f"  IdentitiesOnly yes\n"
            f"  IdentityAgent none\n"
            f"  BatchMode yes\n"
            f"Host {gateway.host}\n"
            f"  StrictHostKeyChecking yes\n"
            f"Host *\n"
            f"  StrictHostKeyChecking accept-new\n"
        )
        return cls(directory, username, gateway)

    @property
    def public_key(self) -> str:
        return (self.directory / "key.pub").read_text()

    @property
    def known_hosts(self) -> str:
        return (self.directory / "known_hosts").read_text()

    def jump(self, username: str | None = None) -> tuple[str, str]:
        return ("-J", f"{username or self.username}@{self.gateway.host}:{self.gateway.port}")

    def direct(self) -> tuple[str, ...]:
        """Options to connect to the gateway itself."""
        return ("-p", str(self.gateway.port), "-l", self.username, self.gateway.host)

    async def start(self, program: str, *arguments: str) -> asyncio.subprocess.Process:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SSH_")}
        return await asyncio.create_subprocess_exec(
            program,
            "-F",
            str(self.directory / "config"),
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment,
        )

    async def run(
        self, *arguments: str, program: str = "ssh", stdin: bytes = b""
    ) -> tuple[int | None, str, str]:
        """Run a command to its end: exit code, output, errors."""
        process = await self.start(program, *arguments)
        async with asyncio.timeout(SECONDS):
            out, errors = await process.communicate(stdin)
        return process.returncode, out.decode(), errors.decode()

    async def session(self, host: str) -> asyncio.subprocess.Process:
        """A session that runs until something ends it."""
        process = await self.start("ssh", *self.jump(), host, "echo ready; exec sleep 600")
        assert process.stdout is not None
        async with asyncio.timeout(SECONDS):
            assert await process.stdout.readline() == b"ready\n"
        return process


async def end_of(process: asyncio.subprocess.Process) -> str:
    """What it says when something ends it."""
    async with asyncio.timeout(SECONDS):
        _, errors = await process.communicate()
    return errors.decode()
