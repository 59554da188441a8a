"""Other proxies in front of the same workspace: nginx, and configurable-http-proxy."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import httpx
from tests.support.ports import free_ports

from bench.jupyterhub_side import PROXY
from bench.processes import running, tree

NGINX = """
worker_processes 1;
daemon off;
pid {directory}/nginx.pid;
error_log stderr warn;
events {{ worker_connections 1024; }}
http {{
  access_log off;
  keepalive_requests 1000000;
  client_body_temp_path {directory}/tmp;
  proxy_temp_path {directory}/tmp;
  proxy_max_temp_file_size 0;
  upstream workspace {{ server 127.0.0.1:{upstream}; keepalive 64; keepalive_requests 1000000; }}
  map $http_upgrade $connection_upgrade {{ default upgrade; "" ""; }}
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://workspace/;
      proxy_http_version 1.1;
      proxy_set_header Host $http_host;
      proxy_set_header Upgrade $http_upgrade;
      proxy_set_header Connection $connection_upgrade;
      proxy_set_header X-Forwarded-For $remote_addr;
    }}
  }}
}}
"""


@dataclass(frozen=True)
class Peer:
    url: str
    pid: int

    def pids(self) -> list[int]:
        return tree([self.pid])


@contextlib.asynccontextmanager
async def nginx(directory: Path, *, upstream: int) -> AsyncIterator[Peer]:
    """One worker, connections to the workspace kept alive: as CodeHub's proxy has it."""
    home = directory / f"nginx-{upstream}"
    (home / "tmp").mkdir(parents=True)
    (port,) = free_ports(1)
    config = home / "nginx.conf"
    config.write_text(NGINX.format(directory=home, upstream=upstream, port=port))
    command = ("nginx", "-e", "stderr", "-p", str(home), "-c", str(config))
    async with running(command, log=home / "log") as process:
        await until_listening(port)
        yield Peer(f"http://127.0.0.1:{port}", process.pid)


@contextlib.asynccontextmanager
async def http_proxy(directory: Path, *, upstream: int) -> AsyncIterator[Peer]:
    """configurable-http-proxy with one route, without its own check of anything."""
    port, api_port = free_ports(2)
    command = (
        str(PROXY),
        *("--ip", "127.0.0.1", "--port", str(port), "--api-ip", "127.0.0.1", "--api-port", str(api_port)),
        *("--log-level", "error"),
    )
    async with running(command, log=directory / "http-proxy.log") as process:
        await until_listening(port)
        await until_listening(api_port)
        async with httpx.AsyncClient(trust_env=False) as client:
            route = {"target": f"http://127.0.0.1:{upstream}"}
            answer = await client.post(f"http://127.0.0.1:{api_port}/api/routes/", json=route)
            answer.raise_for_status()
        yield Peer(f"http://127.0.0.1:{port}", process.pid)


async def until_listening(port: int, *, seconds: float = 20) -> None:
    async with asyncio.timeout(seconds):
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 0.2):
                return
            await asyncio.sleep(0.05)
