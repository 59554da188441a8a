"""``inside ssh`` forwards to the workspace's own loopback and sockets, in both directions, and nowhere else."""

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.support.openssh import HOST, OpenSsh, configure
from tests.support.ports import free_port
from tests.support.requirements import require_bubblewrap, require_inside

VSCODE_SCRIPT = b"""
set -e
mkdir -p ~/.vscode-server
cat > ~/.vscode-server/server.py <<'PROGRAM'
import http.server, socketserver
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b"extension host")
    def log_message(self, *_): pass
server = socketserver.TCPServer(("127.0.0.1", 0), Handler)
print(f"listeningOn=={server.server_address[1]}==", flush=True)
server.serve_forever()
PROGRAM
nohup python3 ~/.vscode-server/server.py > ~/.vscode-server/log 2>&1 < /dev/null &
until grep -q listeningOn ~/.vscode-server/log; do sleep 0.05; done
cat ~/.vscode-server/log
"""


@asynccontextmanager
async def echo_server(host: str = "127.0.0.1", *, path: Path | None = None) -> AsyncIterator[int]:
    """A server that says what it heard; gives its port."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"heard " + await reader.read())
        writer.close()

    started = asyncio.start_unix_server(serve, path) if path else asyncio.start_server(serve, host, 0)
    server = await started
    async with server:
        yield 0 if path else server.sockets[0].getsockname()[1]


async def connect(
    port: int = 0, *, path: Path | None = None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect as soon as somebody listens."""
    deadline = asyncio.get_running_loop().time() + 60
    while True:
        try:
            return await (
                asyncio.open_unix_connection(path) if path else asyncio.open_connection("127.0.0.1", port)
            )
        except OSError:
            assert asyncio.get_running_loop().time() < deadline
            await asyncio.sleep(0.05)


async def ask(port: int, text: bytes = b"hello", *, path: Path | None = None) -> bytes:
    """Say something, end, and read the answer."""
    reader, writer = await connect(port, path=path)
    try:
        writer.write(text)
        writer.write_eof()
        async with asyncio.timeout(60):
            return await reader.read()
    finally:
        writer.close()


async def ask_socks(proxy: int, host: str, port: int, text: bytes) -> bytes | None:
    """The same through a SOCKS proxy; None: it refused."""
    reader, writer = await connect(proxy)
    try:
        async with asyncio.timeout(60):
            writer.write(b"\5\1\0")
            assert await reader.readexactly(2) == b"\5\0"
            writer.write(b"\5\1\0\3" + bytes([len(host)]) + host.encode() + port.to_bytes(2, "big"))
            answer = await reader.readexactly(10)
            if answer[1] != 0:
                return None
            writer.write(text)
            writer.write_eof()
            return await reader.read()
    except (asyncio.IncompleteReadError, ConnectionResetError):
        return None
    finally:
        writer.close()


def call(*command: str, environment: dict[str, str] | None = None) -> bytes:
    return subprocess.run(command, env=environment, capture_output=True, check=True).stdout


async def test_a_port_inside_is_forwarded(openssh: OpenSsh) -> None:
    local = free_port()
    async with echo_server() as port, openssh.running("-N", "-L", f"{local}:localhost:{port}", HOST):
        assert await ask(local, b"x" * 3_000_000) == b"heard " + b"x" * 3_000_000


async def test_a_port_outside_is_forwarded_into_the_workspace(openssh: OpenSsh) -> None:
    remote = free_port()
    async with echo_server() as port, openssh.running("-N", "-R", f"0.0.0.0:{remote}:127.0.0.1:{port}", HOST):
        assert await ask(remote) == b"heard hello"
        listening = await asyncio.to_thread(call, str(require_inside()), "ports")
        assert f'"127.0.0.1","port":{remote}'.encode() in listening  # whatever was asked for


async def test_socks_reaches_the_workspace_and_nothing_else(openssh: OpenSsh) -> None:
    proxy = free_port()
    async with echo_server() as port, openssh.running("-N", "-D", str(proxy), HOST):
        assert await ask_socks(proxy, "127.0.0.1", port, b"hello") == b"heard hello"
        assert await ask_socks(proxy, "localhost", port, b"hello") == b"heard hello"
        for host in ("0.0.0.0", "169.254.169.254", "example.org", "10.0.0.1"):
            assert await ask_socks(proxy, host, port, b"hello") is None, host


async def test_unix_sockets_are_forwarded_both_ways(openssh: OpenSsh, tmp_path: Path) -> None:
    local, remote = tmp_path / "local", openssh.home / "remote"
    async with (
        echo_server(path=openssh.home / "server") as _,
        openssh.running(
            "-N", "-L", f"{local}:{openssh.home}/server", "-R", f"{remote}:{openssh.home}/server", HOST
        ),
    ):
        assert await ask(0, path=local) == b"heard hello"
        assert await ask(0, path=remote) == b"heard hello"
        assert remote.stat().st_mode & 0o077 == 0


async def test_on_a_shared_network_only_own_ports_are_reached(tmp_path: Path) -> None:
    inside = require_inside()
    sandbox = [
        str(require_bubblewrap()),
        "--bind",
        "/",
        "/",
        "--unshare-pid",
        "--proc",
        "/proc",
        "--dev",
        "/dev",
    ]
    openssh = configure(tmp_path, [*sandbox, "--", str(inside)], own_listeners_only=True)
    proxy, own = free_port(), free_port()
    server = f"import http.server as h; h.test(h.SimpleHTTPRequestHandler, port={own}, bind='127.0.0.1')"
    async with (
        echo_server() as others,
        openssh.running("-D", str(proxy), HOST, f'exec python3 -c "{server}"'),
    ):
        assert (await ask(own, b"GET / HTTP/1.0\r\n\r\n")).startswith(b"HTTP/1.0 200")  # it listens
        answer = await ask_socks(proxy, "127.0.0.1", own, b"GET / HTTP/1.0\r\n\r\n")
        assert answer is not None
        assert answer.startswith(b"HTTP/1.0 200")
        assert await ask_socks(proxy, "127.0.0.1", others, b"hello") is None


async def test_the_agent_is_forwarded_to_this_user_only(openssh: OpenSsh, tmp_path: Path) -> None:
    key, socket = tmp_path / "key", tmp_path / "agent"
    call("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "kim@laptop", "-f", str(key))
    agent = await asyncio.create_subprocess_exec(
        "ssh-agent", "-D", "-a", str(socket), stdout=asyncio.subprocess.DEVNULL
    )
    try:
        async with asyncio.timeout(60):
            while not socket.exists():
                await asyncio.sleep(0.02)
        openssh.environment["SSH_AUTH_SOCK"] = str(socket)
        call("ssh-add", "-q", str(key), environment=openssh.environment)
        done = await asyncio.to_thread(
            openssh.run,
            'ssh-add -l; stat -c %a "$(dirname $SSH_AUTH_SOCK)"; echo $SSH_AUTH_SOCK',
            options=["-A"],
        )
        listed, mode, path = done.stdout.decode().splitlines()
        assert "kim@laptop" in listed
        assert mode == "700"
        async with asyncio.timeout(60):
            while await asyncio.to_thread(os.path.lexists, path):  # it goes with the session
                await asyncio.sleep(0.05)
        done = await asyncio.to_thread(openssh.run, "echo agent:$SSH_AUTH_SOCK")
        assert done.stdout == b"agent:\n"
    finally:
        agent.terminate()
        await agent.wait()


async def test_one_connection_carries_many_sessions(openssh: OpenSsh) -> None:
    control = ["-o", f"ControlPath={openssh.directory}/control"]
    async with openssh.running(*control, "-M", "-N", HOST):
        async with asyncio.timeout(60):
            while not (openssh.directory / "control").exists():
                await asyncio.sleep(0.02)
        runs = [asyncio.to_thread(openssh.run, f"echo {n}; exit {n}", options=control) for n in range(8)]
        done = await asyncio.gather(*runs)
        assert [(one.returncode, one.stdout) for one in done] == [(n, f"{n}\n".encode()) for n in range(8)]
        parents = [asyncio.to_thread(openssh.run, "echo $PPID", options=control) for _ in range(2)]
        first, second = await asyncio.gather(*parents)
        assert first.stdout == second.stdout  # one program inside serves all of them


@pytest.mark.timeout(180)
async def test_the_way_of_vs_code_works(openssh: OpenSsh) -> None:
    """It sends a script to a shell, which starts a server, and connects to that through the same connection."""
    proxy = free_port()
    async with openssh.running("-T", "-D", str(proxy), HOST, "bash") as client:
        assert client.stdin is not None
        assert client.stdout is not None
        client.stdin.write(VSCODE_SCRIPT)
        async with asyncio.timeout(60):
            line = await client.stdout.readline()
        port = int(line.split(b"==")[1])
        for _ in range(3):
            answer = await ask_socks(proxy, "127.0.0.1", port, b"GET / HTTP/1.0\r\n\r\n")
            assert answer is not None
            assert answer.endswith(b"extension host")
        client.stdin.write_eof()
        async with asyncio.timeout(60):
            assert await client.wait() == 0
