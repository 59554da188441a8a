"""The proxy in a process of its own, so that its memory can be told from the test's.

``python -m tests.integration.proxy.apart UPSTREAM_PORT`` says "PORT WORKSPACE_ID" and serves until its
standard input ends: it cannot outlive the test that started it.
"""

import asyncio
import contextlib
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import uvloop

from codehub.proxy.server import ProxyServer
from codehub.proxy.settings import ProxySettings, UnixAddress
from tests.integration.proxy.fakes import SESSION, make_ports

ROOT = Path(__file__).parents[3]


@dataclass(frozen=True)
class Apart:
    pid: int
    port: int
    workspace_id: str

    def head(self, method: str, *lines: str) -> bytes:
        """A signed-in request to the workspace, from a page of this site."""
        here = f"127.0.0.1:{self.port}"
        fields = [f"Host: {here}", f"Origin: http://{here}", f"Cookie: codehub_session={SESSION}", *lines]
        return "\r\n".join([f"{method} /w/{self.workspace_id}/ HTTP/1.1", *fields, "", ""]).encode()

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=30)

    def forget_peak(self) -> int:
        """Resident memory now, in KiB; ``peak`` counts from here."""
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")
        return self._status("VmRSS")

    def peak(self) -> int:
        """The most it has held at any moment since ``forget_peak``, in KiB."""
        return self._status("VmHWM")

    def _status(self, name: str) -> int:
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(name + ":"))


@contextlib.contextmanager
def proxy_apart(upstream_port: int) -> Iterator[Apart]:
    command = (sys.executable, "-m", "tests.integration.proxy.apart", str(upstream_port))
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            port, workspace_id = process.stdout.readline().decode().split()
            yield Apart(process.pid, int(port), workspace_id)
        finally:
            process.stdin.close()


async def _serve(upstream_port: int) -> None:
    ports, directory, _, _ = make_ports()
    workspace = directory.add(address=("127.0.0.1", upstream_port))
    server = ProxyServer(ports, ProxySettings(api=UnixAddress("/nowhere"), internal_secret=b"shared"))
    await server.start()
    print(server.port, workspace.id, flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await server.stop(drain_seconds=0)


if __name__ == "__main__":
    uvloop.run(_serve(int(sys.argv[1])))
