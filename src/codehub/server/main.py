"""Start, run and stop one CodeHub process.

    take the port → embedded servers (under the data directory's lock) → migrate → first admin
    → coordinators and HTTP → … → coordinators step down → HTTP drained → embedded servers stopped

Each stage is a block that undoes itself, so Ctrl-C is the same at every moment: the main task is cancelled
and the blocks end from the inside out. A kill -9 skips all of that and does no harm: the kernel ends the
children and frees lock and port, and the next start removes the rest.

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
from codehub.server.sandbox_rule import require_sandbox, warn_without_sandbox
from codehub.server.settings.tree import ProcessRole, Settings
from codehub.server.ssh_gateway import serving_ssh, taken_port
from codehub.services.accounts import FirstAdmin
from codehub.store.outage import on_loop_error

log = structlog.get_logger(__name__)

READY_WITHIN = 60.0
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class NotServingError(CodeHubError):
    """The HTTP server did not become ready, or ended unasked."""

    code = "not_serving"


@dataclass(frozen=True)
class Run:
    """What ``up`` and ``serve`` do differently, and their callbacks for people."""

    migrate: bool
    stop_workspaces: bool
    on_first_admin: Callable[[FirstAdmin], None]
    on_ready: Callable[[str], None]
    on_stopping: Callable[[], None]


async def run_server(settings: Settings, run: Run) -> None:
    """Run the server until cancelled. Raises ``CodeHubError`` if it cannot start."""
    with (
        contextlib.closing(binding.take(settings.http.bind)) as taken,
        taken_port(settings) as (settings, taken_ssh),
    ):
        bind = binding.bound_to(taken, settings.http.bind)
        require_sandbox(settings)  # before anything is made
        warn_without_sandbox(settings)
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
                await _serve(
                    application, settings, run, where=where, taken=taken, taken_ssh=taken_ssh, bind=bind
                )
            finally:
                await application.stop(stop_workspaces=run.stop_workspaces)


async def _serve(
    application: wiring.Application,
    settings: Settings,
    run: Run,
    *,
    where: Endpoints,
    taken: socket.socket,
    taken_ssh: socket.socket | None,
    bind: binding.Bind,
) -> None:
    """Serve HTTP until cancelled: behind the proxy's processes, or directly without the proxy role."""
    async with contextlib.AsyncExitStack() as stack:
        has_proxy = ProcessRole.PROXY in settings.http.roles
        listening = stack.enter_context(supervisor.api_socket(settings)) if has_proxy else taken
        http = await stack.enter_async_context(serving(application.asgi, taken=listening, bind=bind))
        # Before requests are drained: the next leader does not wait for the last download.
        stack.push_async_callback(application.step_down)
        stack.callback(end_streams, application.asgi)
        await stack.enter_async_context(serving_ssh(application.ssh_gateway, taken_ssh, settings))
        if has_proxy:
            await stack.enter_async_context(
                supervisor.proxies(settings, where, taken=taken, api=supervisor.path_of(listening))
            )
        await _until_ready(bind)
        memory.settle()
        run.on_ready(settings.http.base_url or bind.url)
        # wait() instead of await: cancelling this wait must not cancel open requests.
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
    """Run ``work`` until it ends or a signal cancels it.

    Its blocks unwind then. A second signal exits at once, and the kernel ends the children.
    """

    async def main() -> None:
        task = asyncio.current_task()
        assert task is not None
        received = 0

        def on_signal() -> None:
            nonlocal received
            received += 1
            if received > 1:
                os._exit(130)
            on_stopping()
            task.cancel()

        loop = asyncio.get_running_loop()
        loop.set_exception_handler(on_loop_error)
        for one in SIGNALS:
            loop.add_signal_handler(one, on_signal)
        try:
            await work
        except asyncio.CancelledError:
            if not received:
                raise

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
