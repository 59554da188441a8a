"""Routes for what sleeping saved: ``/savings`` of one's own workspaces, ``/admin/savings`` of everybody's."""

from codehub.api import problems
from codehub.api.auth import Admin, Caller
from codehub.api.routes.router import api_router
from codehub.api.schemas.savings import Savings
from codehub.api.state import State
from codehub.services import savings as service

router = api_router("", "savings")


@router.get(
    "/savings",
    summary="Hours your workspaces did not run this month",
    response_model=Savings,
    responses=problems.documented("unauthorized"),
)
async def own(caller: Caller, state: State) -> Savings:
    return _rendered(await state.savings.of(caller.user.id), state)


@router.get(
    "/admin/savings",
    summary="Hours all workspaces did not run this month",
    response_model=Savings,
    responses=problems.documented("unauthorized", "forbidden"),
)
async def of_everybody(caller: Admin, state: State) -> Savings:
    del caller
    return _rendered(await state.savings.of(None), state)


def _rendered(found: service.Savings, state: State) -> Savings:
    price = state.savings.price
    return Savings(
        since=found.since,
        hours_existed=round(found.hours.existed, 3),
        hours_ran=round(found.hours.ran, 3),
        hours_saved=round(found.hours.saved, 3),
        gb_not_on_disk=round(found.hours.gb_archived, 3),
        gb_months_saved=round(found.hours.gb_hours / service.MONTH_HOURS, 3),
        money=None if found.money is None else round(found.money, 2),
        currency=None if price is None else price.currency,
    )
