"""Routes for health checks and metrics, without sign-in, outside ``/api/v1``."""

import asyncio

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST, Gauge, generate_latest

from codehub.api import problems
from codehub.api.schemas.health import CoordinatorReport, Health
from codehub.api.state import State
from codehub.domain.status import Status
from codehub.store.errors import DATABASE_FAILED

router = APIRouter(tags=["health"])

COUNTS_TIMEOUT_SECONDS = 3.0

WORKSPACES = Gauge("codehub_workspaces", "Workspaces by status, deleted ones aside", ["status"])


@router.get("/health/live", summary="The process answers", response_model=Health)
async def live() -> Health:
    return Health(status="ok")


@router.get(
    "/health/ready",
    summary="The database is reachable and migrated",
    response_model=Health,
    responses=problems.documented("not_ready"),
)
async def ready(state: State) -> Health | Response:
    reason = await state.deps.why_not_ready()
    return Health(status="ok") if reason is None else problems.problem("not_ready", reason)


@router.get(
    "/health/coordinator",
    summary="Leaders of the coordinators, seen from this process",
    response_model=CoordinatorReport,
)
async def coordinator(state: State) -> CoordinatorReport:
    return CoordinatorReport.model_validate(dict(await state.deps.coordinator_health()))


@router.get(
    "/metrics",
    summary="Metrics for Prometheus",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def metrics(state: State) -> Response:
    try:
        async with asyncio.timeout(COUNTS_TIMEOUT_SECONDS):
            counts = await state.overviews.counts()
    except DATABASE_FAILED:
        WORKSPACES.clear()  # unknown is not zero; the other metrics are still served
    else:
        for status in Status:
            if status is not Status.DELETED:
                WORKSPACES.labels(status.value).set(counts.get(status.value, 0))
    return Response(generate_latest(state.deps.metrics), media_type=CONTENT_TYPE_LATEST)
