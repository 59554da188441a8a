"""The HTTP application: one router per resource, put together here and nowhere else."""

from fastapi import FastAPI

from codehub import __version__
from codehub.api.health import WhyNotReady, health_router


def create_app(*, why_not_ready: WhyNotReady) -> FastAPI:
    app = FastAPI(title="CodeHub", version=__version__)
    app.include_router(health_router(why_not_ready))

    @app.get("/", include_in_schema=False)
    async def root() -> dict[str, str]:
        return {"name": "CodeHub", "version": __version__}

    return app
