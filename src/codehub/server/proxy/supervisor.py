"""Run the proxy processes in front of this process's API.

They inherit the listening socket, so the port stays bound while one of them is restarted, and reach the API on a
Unix socket that only this user can open. Supervised: one that dies is restarted, and all of them end with this
process, however it ends.
"""

import contextlib
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from prometheus_client import REGISTRY

from codehub.kit.listening import stop_arrivals
from codehub.server.data_dir import DataDir
from codehub.server.processes.embedded import Endpoints
from codehub.server.processes.supervisor import ChildSpec, Supervisor
from codehub.server.proxy.metrics import ProxyCollector, numbers_file
from codehub.server.proxy.process import DRAIN_SECONDS
from codehub.server.settings.tree import Settings

BACKLOG = 1024


@contextlib.contextmanager
def api_socket(settings: Settings) -> Iterator[socket.socket]:
    """Bind the API's Unix socket, removed at the end of the block.

    Named after the process: replicas may share a data directory.
    """
    with DataDir(settings.data_dir).sockets_in_use() as directory:
        path = directory / f"api-{os.getpid()}.sock"
        path.unlink(missing_ok=True)
        listening = socket.socket(socket.AF_UNIX)
        try:
            before = os.umask(0o177)
            try:
                listening.bind(str(path))
            finally:
                os.umask(before)
            yield listening
        finally:
            listening.close()
            path.unlink(missing_ok=True)


def path_of(listening: socket.socket) -> Path:
    return Path(listening.getsockname())


@contextlib.asynccontextmanager
async def proxies(
    settings: Settings, where: Endpoints, *, taken: socket.socket, api: Path
) -> AsyncIterator[None]:
    taken.listen(BACKLOG)  # from here on callers wait instead of being refused
    supervisor = Supervisor()
    collector = ProxyCollector(api.parent, REGISTRY)
    try:
        for number in range(settings.http.proxy_processes):
            await supervisor.start(_child(settings, where, number=number, taken=taken, api=api))
        yield
    finally:
        # The proxies accept what is in the queue first. Then all close the socket at the same time: otherwise the
        # kernel would complete connections that no process accepts.
        await stop_arrivals(taken)
        taken.close()
        await supervisor.stop(together=True)
        collector.close()


def _child(
    settings: Settings, where: Endpoints, *, number: int, taken: socket.socket, api: Path
) -> ChildSpec:
    bind = settings.http.bind
    numbers = numbers_file(api.parent, parent=os.getpid(), number=number)
    environ = {
        **os.environ,
        "DATABASE_URL": where.database_url,
        "REDIS_URL": where.redis_url,
        "CODEHUB_API_UPSTREAM": f"unix://{api}",
        "CODEHUB_ROLES": "proxy",
        "CODEHUB_BASE_URL": settings.http.base_url or bind.url,
        "COORDINATOR_NODE_ID": f"{settings.coordinator.node_id}-proxy{number}",
    }
    for name in ("DATABASE_URL_FILE", "REDIS_URL_FILE"):  # replaced above; both forms together are an error
        environ.pop(name, None)

    async def is_ready() -> bool:
        return True  # ``main`` checks readiness through the public port, for all proxies together

    return ChildSpec(
        name=f"proxy {number}",
        argv=(sys.executable, "-m", "codehub.server.proxy.process", str(taken.fileno()), str(numbers)),
        is_ready=is_ready,
        stop_signals=((signal.SIGTERM, DRAIN_SECONDS + 2),),
        environ=environ,
        pass_fds=(taken.fileno(),),
    )
