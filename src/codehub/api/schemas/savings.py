"""Bodies of ``/savings`` and ``/admin/savings``."""

from datetime import datetime

from pydantic import ConfigDict, Field

from codehub.api.schemas.base import ResponseBody


class Savings(ResponseBody):
    """What sleeping saved since the month began (UTC). Up to a minute old."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "since": "2026-11-01T00:00:00Z",
                "hours_existed": 1224.5,
                "hours_ran": 96.25,
                "hours_saved": 1128.25,
                "money": 90.26,
                "currency": "EUR",
            }
        }
    )

    since: datetime
    hours_existed: float = Field(
        description="Hours the workspaces existed, all added up; deleted ones until then"
    )
    hours_ran: float = Field(description="Hours they ran, from their timelines")
    hours_saved: float = Field(
        description="Hours they would have run in addition if nothing were put to sleep"
    )
    money: float | None = Field(description="Price of the hours saved; null: no price is configured")
    currency: str | None = Field(description="Currency of the price, as it is configured")
