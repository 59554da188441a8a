"""Build the FastAPI application: routers, middleware, lifespan."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from codehub import __version__
from codehub.api import dashboard, openapi, problems
from codehub.api.dependencies import ApiDependencies
from codehub.api.middleware import RequestMiddleware
from codehub.api.routes import (
    admin,
    archive_files,
    auth,
    catalogue,
    events,
    exec,
    files,
    findings,
    generations,
    health,
    port_shares,
    port_tunnels,
    ports,
    processes,
    savings,
    snapshots,
    ssh,
    ssh_keys,
    terminal,
    tokens,
    users,
    workspace_details,
    workspaces,
)
from codehub.api.routes.router import PREFIX, add_flat
from codehub.api.state import AppState

# Routes match in this order: those up to ``workspace_details`` are more specific than ``/workspaces/{id}``.
RESOURCES = (
    events,
    ssh,
    exec,
    files,
    ports,
    processes,
    port_shares,
    generations,
    archive_files,
    workspace_details,
    workspaces,
    auth,
    tokens,
    ssh_keys,
    catalogue,
    users,
    savings,
    snapshots,
    admin,
    findings,
    health,
)


def create_app(dependencies: ApiDependencies) -> FastAPI:
    """Build the application.

    Its lifespan starts and stops ``AppState``, not ``dependencies``.
    """
    state = AppState(dependencies)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        state.start()
        try:
            yield
        finally:
            await state.close()

    app = FastAPI(
        title="CodeHub",
        version=__version__,
        summary="Development workspaces in the browser that cost nothing while nobody uses them",
        openapi_url=f"{PREFIX}/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
    )
    app.state.codehub = state
    problems.install(app)
    sockets = (ssh.sockets, exec.sockets, terminal.sockets, port_tunnels.sockets)
    add_flat(app, (*(each.router for each in RESOURCES), *sockets))
    dashboard.install(app)
    openapi.install(app)
    app.add_middleware(RequestMiddleware, https=dependencies.settings.is_https)
    return app


def end_streams(app: FastAPI) -> None:
    """End all event streams.

    Call it before draining: they would not end by themselves.
    """
    state: AppState = app.state.codehub
    state.revoker.end_all()
