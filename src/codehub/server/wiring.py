"""Puts the concrete parts together. The only place that names them."""

from dataclasses import dataclass

from fastapi import FastAPI
from sqlalchemy.ext.asyncio import AsyncEngine

from codehub.api.app import create_app
from codehub.server.embedded import Endpoints
from codehub.server.settings import Settings
from codehub.services.readiness import Readiness
from codehub.store.engine import create_engine


@dataclass(frozen=True)
class Application:
    """What ``main`` runs: an ASGI application, and what works beside it."""

    asgi: FastAPI
    engine: AsyncEngine

    async def start(self) -> None:
        """Start what runs beside the HTTP server."""

    async def stop(self, *, stop_workspaces: bool) -> None:
        """End it, and give back connections. ``stop_workspaces``: end local workspaces too; wishes stay."""
        await self.engine.dispose()


def build(settings: Settings, endpoints: Endpoints) -> Application:
    engine = create_engine(endpoints.database_url)
    return Application(asgi=create_app(why_not_ready=Readiness(engine).why_not_ready), engine=engine)
