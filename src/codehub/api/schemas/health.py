"""Bodies of ``/health``."""

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from codehub.api.schemas.base import ResponseBody


class Health(ResponseBody):
    status: Literal["ok"]


class RivalLeader(ResponseBody):
    holder_id: str
    lock_name: str


class CoordinatorState(ResponseBody):
    is_leader: bool
    holder_id: str | None = None
    acquired_at: datetime | None = None
    epoch: int | None = None
    last_tick_at: datetime | None = None
    last_error: str | None = None
    away: dict[str, Any] = Field({}, description="Engines that do not answer, as the leader sees them")
    rivals: list[RivalLeader] = Field(
        [],
        description="Other leaders of the same coordinator: replicas with another COORDINATOR_LOCK_ID",
    )


class CoordinatorReport(ResponseBody):
    node_id: str
    uptime_seconds: float
    is_leader: bool
    coordinators: dict[str, CoordinatorState]
