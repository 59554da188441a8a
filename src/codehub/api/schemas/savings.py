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
                "gb_not_on_disk": 12.4,
                "gb_months_saved": 7.2,
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
    gb_not_on_disk: float = Field(description="Gigabytes of homes that are archived now, unpacked")
    gb_months_saved: float = Field(
        description="Gigabytes times the months (730 h) they were on no disk since the month began"
    )
    money: float | None = Field(
        description="Price of the hours and the disk saved; null: no price is configured"
    )
    currency: str | None = Field(description="Currency of the price, as it is configured")
