"""What running workspaces cost here, for telling people what sleeping saves."""

from codehub.server.settings.variables import Group, variable


class PriceSettings(Group):
    running_hour: float | None = variable(
        "PRICE_RUNNING_HOUR",
        meaning="Price of one hour of a running workspace; with it people see what sleeping saved in money, too",
        shown="no prices",
        ge=0,
    )
    gb_month: float | None = variable(
        "PRICE_GB_MONTH",
        meaning="Price of one gigabyte of disk for a month; what archiving saved is counted with it",
        shown="no price",
        ge=0,
    )
    currency: str = variable(
        "PRICE_CURRENCY", "USD", meaning="Currency of prices, as an ISO 4217 code", pattern="^[A-Z]{3}$"
    )
