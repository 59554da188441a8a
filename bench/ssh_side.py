"""SSH clients to measure with: OpenSSH's own programs, a plain sshd as the peer, and asyncssh over the WebSocket."""

import asyncio
import contextlib
import socket
import subprocess
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import asyncssh
from tests.support.gateway import PlainSsh
from tests.support.ports import free_port
from websockets.asyncio.client import ClientConnection, connect

from bench.codehub_side import CodeHub
from bench.processes import running
from codehub.api.dependencies import SshGatewayAddress
from codehub.cli.ssh_config import CIPHERS
from codehub.cli.ssh_tunnel import PING_SECONDS

SSHD = "/usr/sbin/sshd"
HOST = "thesis"


@dataclass(frozen=True)
class Openssh:
    """OpenSSH's client with one configuration, whose host ``thesis`` is what is measured."""

    config: Path

    def command(self, program: str, *arguments: str) -> list[str]:
        return [program, "-F", str(self.config), *arguments]

    @contextlib.asynccontextmanager
    async def connected(self) -> AsyncIterator["Openssh"]:
        """The same over one connection that is open already (ControlMaster)."""
        shared = self.config.with_name("shared")
        control = self.config.with_name("control")
        shared.write_text(f"ControlPath {control}\n" + self.config.read_text())
        master = self.command("ssh", "-o", "ControlMaster=yes", "-o", f"ControlPath={control}", "-N", HOST)
        async with running(master, log=self.config.with_name("master.log")):
            client = Openssh(shared)
            async with asyncio.timeout(60):
                while not control.exists():  # noqa: ASYNC110 - made by another process
                    await asyncio.sleep(0.05)
            yield client

    async def run(self, program: str, *arguments: str, stdin: bytes = b"") -> bytes:
        process = await asyncio.create_subprocess_exec(
            *self.command(program, *arguments),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        output, errors = await process.communicate(stdin)
        if process.returncode != 0:
            raise RuntimeError(f"{program} {arguments}: {errors.decode()}")
        return output


async def through_gateway(hub: CodeHub, directory: Path, name: str) -> Openssh:
    """A client that reaches the workspace ``name`` by ``ssh -J``; its key is registered."""
    answer = (await hub.client.get("/api/v1/ssh-keys")).raise_for_status().json()
    gateway = SshGatewayAddress(**answer["gateway"])
    plain = await asyncio.to_thread(PlainSsh.create, directory, "admin", gateway)
    body = {"name": directory.name, "public_key": plain.public_key}
    (await hub.client.post("/api/v1/ssh-keys", json=body)).raise_for_status()
    config = directory / "jump"
    config.write_text(
        f"Host {HOST}\n  HostName {name}\n  ProxyCommand ssh -F {directory}/config -W %h:%p "
        f"-p {gateway.port} admin@{gateway.host}\n" + (directory / "config").read_text()
    )
    return Openssh(config)


async def through_command(
    hub: CodeHub, directory: Path, workspace_id: str, program: Sequence[str]
) -> Openssh:
    """A client whose ProxyCommand is ``codehub ssh --stdio``."""
    directory.mkdir()  # noqa: ASYNC240 - nothing else runs yet
    answer = (await hub.client.get(f"/api/v1/workspaces/{workspace_id}/ssh")).raise_for_status().json()
    (directory / "known_hosts").write_text(f"{HOST} {answer['host_key']}\n")
    login = directory / "codehub"
    login.mkdir()
    (login / "login.json").write_text(f'{{"url": "{hub.url}", "token": "{hub.token}"}}')
    (login / "login.json").chmod(0o600)
    command = " ".join(
        [f"env XDG_CONFIG_HOME={directory} HOME={directory}", *program, "ssh", "--stdio", workspace_id]
    )
    config = directory / "config"
    config.write_text(
        f"Host {HOST}\n  ProxyCommand {command}\n  UserKnownHostsFile {directory}/known_hosts\n"
        f"  Ciphers {CIPHERS}\n  IdentityFile none\n  IdentityAgent none\n  BatchMode yes\n  LogLevel ERROR\n"
    )
    return Openssh(config)


@contextlib.asynccontextmanager
async def plain_sshd(directory: Path, home: Path) -> AsyncIterator[Openssh]:
    """OpenSSH's own server on this machine, for the same user."""
    directory.mkdir()  # noqa: ASYNC240 - nothing else runs yet
    for name in ("host", "key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", directory / name], check=True)  # noqa: ASYNC221
    (directory / "authorized").write_bytes((directory / "key.pub").read_bytes())
    port = free_port()
    (directory / "sshd_config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {directory}/host\nPidFile none\nUsePAM no\n"
        f"AuthorizedKeysFile {directory}/authorized\nStrictModes no\nPermitRootLogin yes\n"
        "Subsystem sftp internal-sftp\n"
    )
    config = directory / "config"
    config.write_text(
        f"Host {HOST}\n  HostName 127.0.0.1\n  Port {port}\n  IdentityFile {directory}/key\n  IdentitiesOnly yes\n"
        "  IdentityAgent none\n  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n  BatchMode yes\n"
        "  LogLevel ERROR\n"
    )
    Path("/run/sshd").mkdir(exist_ok=True)  # noqa: ASYNC240 - where sshd goes before anybody signs in
    command = [SSHD, "-D", "-e", "-f", str(directory / "sshd_config")]
    async with running(command, log=directory / "sshd.log"):
        client = Openssh(config)
        async with asyncio.timeout(20):
            while True:
                with contextlib.suppress(RuntimeError):
                    await client.run("ssh", HOST, "true")
                    break
                await asyncio.sleep(0.1)
        yield client


@contextlib.asynccontextmanager
async def over_socket(hub: CodeHub, workspace_id: str) -> AsyncIterator[asyncssh.SSHClientConnection]:
    """asyncssh over the WebSocket that ``codehub ssh`` uses."""
    url = hub.url.replace("http", "ws", 1) + f"/api/v1/workspaces/{workspace_id}/ssh?client=bench"
    async with connect(
        url,
        additional_headers={"Authorization": f"Bearer {hub.token}"},
        proxy=None,
        compression=None,
        max_size=None,
        ping_interval=PING_SECONDS,
    ) as ws:
        ours, theirs = socket.socketpair()
        reader, writer = await asyncio.open_connection(sock=ours)
        pumps = [asyncio.create_task(_up(reader, ws)), asyncio.create_task(_down(ws, writer))]
        try:
            async with asyncssh.connect(
                HOST,
                sock=theirs,
                username="x",
                known_hosts=None,
                client_keys=None,
                agent_path=None,
                config=None,
            ) as connection:
                yield connection
        finally:
            for pump in pumps:
                pump.cancel()
            writer.close()


async def _up(reader: asyncio.StreamReader, ws: ClientConnection) -> None:
    while data := await reader.read(65536):
        await ws.send(data)


async def _down(ws: ClientConnection, writer: asyncio.StreamWriter) -> None:
    async for message in ws:
        if isinstance(message, bytes):
            writer.write(message)
            await writer.drain()
