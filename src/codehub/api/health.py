"""Two questions an orchestrator asks: does the process live, and may it get traffic?"""

from collections.abc import Awaitable, Callable

from fastapi import APIRouter
from fastapi.responses import JSONResponse

WhyNotReady = Callable[[], Awaitable[str | None]]
"""None when ready, otherwise the reason in words."""


def health_router(why_not_ready: WhyNotReady) -> APIRouter:
    router = APIRouter(prefix="/health", tags=["health"])

    @router.get("/live", summary="The process answers")
    async def live() -> dict[str, str]:
        return {"status": "ok"}

    @router.get("/ready", summary="The database is reachable and migrated", response_model=None)
    async def ready() -> JSONResponse:
        reason = await why_not_ready()
        if reason is None:
            return JSONResponse({"status": "ok"})
        return JSONResponse(
            {
                "type": "about:blank",
                "title": "Not ready",
                "status": 503,
                "detail": reason,
                "code": "not_ready",
            },
            status_code=503,
            media_type="application/problem+json",
        )

    return router
