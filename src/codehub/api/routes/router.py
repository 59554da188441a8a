"""Register routes as one flat list, and refuse unknown query parameters.

Included routers would be nested, and matched level by level on every request; a flat list is matched once, and
each route has the full path template that metrics and the access log use.

An unknown query parameter is refused like an unknown field: ``?onwer=all`` must not list the caller's own.
"""

from collections.abc import Iterable

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.routing import APIRoute

from codehub.api.problems import Invalid

PREFIX = "/api/v1"

_known: dict[str, frozenset[str]] = {}


async def no_unknown_parameters(request: Request) -> None:
    """Raise 422 for a query parameter that the route does not declare."""
    if not request.scope["query_string"]:
        return
    known = _known_of(request.scope["route"])
    for name in request.query_params:
        if name not in known:
            raise Invalid(name, "there is no such parameter")


def api_router(prefix: str, tag: str) -> APIRouter:
    """Build a router for calls under ``/api/v1``."""
    return APIRouter(prefix=PREFIX + prefix, tags=[tag], dependencies=[Depends(no_unknown_parameters)])


def add_flat(app: FastAPI, routers: Iterable[APIRouter]) -> None:
    """Add the routers' routes to the application's own list."""
    for router in routers:
        app.router.routes.extend(router.routes)


def _known_of(route: APIRoute) -> frozenset[str]:
    known = _known.get(route.unique_id)
    if known is None:
        known = frozenset(field.alias for field in route.dependant.query_params)
        _known[route.unique_id] = known
    return known
