"""The life of one CodeHub process, from the first check to the last goodbye.

    take the port → embedded servers (under the data directory's lock) → migrate → first admin
    → coordinators and HTTP → … → coordinators step down → HTTP drained → embedded servers → gone

Each stage is a block that undoes itself, so Ctrl-C is the same at every moment: the main task is cancelled
and the blocks end from the inside out. A kill -9 skips all of that, which must do no harm: the kernel ends
the children and frees lock and port, and the next start clears away the rest.

``up`` and ``serve`` run the same code; ``Run`` holds what differs.
"""

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

import structlog
import uvloop

from codehub.api.app import end_streams
from codehub.domain.errors import CodeHubError
from codehub.kit import memory
from codehub.server import bind as binding
from codehub.server import wiring
from codehub.server.database import prepare_database
from codehub.server.http import answers, serving
from codehub.server.processes.embedded import Endpoints, endpoints
from codehub.server.proxy import supervisor
from codehub.server.proxy.process import run_proxy, upstream_of
from codehub.server.settings.tree import ProcessRole, Settings
from codehub.services.accounts import FirstAdmin
from codehub.store.outage import on_loop_error

log = structlog.get_logger(__name__)

READY_WITHIN = 60.0
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class NotServingError(CodeHubError):
    """The server does not serve."""

    code = "not_serving"


@dataclass(frozen=True)
class Run:
    """What ``up`` and ``serve`` do differently, and how they tell the person."""

    migrate: bool
    stop_workspaces: bool
    on_first_admin: Callable[[FirstAdmin], None]
    on_ready: Callable[[str], None]
    on_stopping: Callable[[], None]


async def run_server(settings: Settings, run: Run) -> None:
    """Run until cancelled. Raises ``CodeHubError`` with a sentence for whatever stands in the way."""
    with contextlib.closing(binding.take(settings.http.bind)) as taken:
        bind = binding.bound_to(taken, settings.http.bind)
        settings = settings.model_copy(update={"http": settings.http.model_copy(update={"bind": bind})})
        async with endpoints(settings) as where:
            first_admin = await prepare_database(where.database_url, settings, migrate=run.migrate)
            if first_admin is not None:
                run.on_first_admin(first_admin)
            if settings.http.roles == {ProcessRole.PROXY}:
                await run_proxy(
                    settings,
                    sock=taken,
                    database_url=where.database_url,
                    redis_url=where.redis_url,
                    api=upstream_of(settings),
                )
                return
            application = await wiring.build(settings, where)
            try:
                await application.start()
                await _serve(application, settings, run, where=where, taken=taken, bind=bind)
            finally:
                await application.stop(stop_workspaces=run.stop_workspaces)


async def _serve(
    application: wiring.Application,
    settings: Settings,
    run: Run,
    *,
    where: Endpoints,
    taken: socket.socket,
    bind: binding.Bind,
) -> None:
    """HTTP until cancelled: behind the proxy's processes, or by itself where this one has no proxy."""
    async with contextlib.AsyncExitStack() as stack:
        has_proxy = ProcessRole.PROXY in settings.http.roles
        listening = stack.enter_context(supervisor.api_socket(settings)) if has_proxy else taken
        http = await stack.enter_async_context(serving(application.asgi, taken=listening, bind=bind))
        # Before requests are drained: the next leader need not wait for the last download.
        stack.push_async_callback(application.step_down)
        stack.callback(end_streams, application.asgi)
        if has_proxy:
            await stack.enter_async_context(
                supervisor.proxies(settings, where, taken=taken, api=supervisor.path_of(listening))
            )
        await _until_ready(bind)
        memory.settle()
        run.on_ready(settings.http.base_url or bind.url)
        # Waited for, not awaited: the end of this wait must not cut off open requests.
        await asyncio.wait({http})
        raise NotServingError("The HTTP server ended unasked; the log says why.")


async def _until_ready(bind: binding.Bind) -> None:
    try:
        async with asyncio.timeout(READY_WITHIN):
            await answers(f"{bind.url}/health/ready")
    except TimeoutError:
        raise NotServingError(
            f"CodeHub did not get ready within {READY_WITHIN:g} seconds ({bind.url}/health/ready). "
            "The log above says why; `codehub doctor` checks what it depends on."
        ) from None
    log.info("ready", bind=str(bind))


def run_until_signal(work: Coroutine[Any, Any, None], *, on_stopping: Callable[[], None]) -> None:
    """Run ``work`` until it ends or a signal asks for the end; then its blocks unwind. A second signal leaves
    at once: the kernel then ends the children."""

    async def main() -> None:
        task = asyncio.current_task()
        assert task is not None
        asked = 0

        def ask() -> None:
            nonlocal asked
            asked += 1
            if asked > 1:
                os._exit(130)
            on_stopping()
            task.cancel()

        loop = asyncio.get_running_loop()
        loop.set_exception_handler(on_loop_error)
        for one in SIGNALS:
            loop.add_signal_handler(one, ask)
        try:
            await work
        except asyncio.CancelledError:
            if not asked:
                raise

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
