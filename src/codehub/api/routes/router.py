"""Register routes as one flat list, and refuse unknown query parameters.

Included routers would be nested, and matched level by level on every request; a flat list is matched once, and
each route has the full path template that metrics and the access log use.

An unknown query parameter is refused like an unknown field: ``?onwer=all`` must not list the caller's own.
"""

from collections.abc import Iterable

from fastapi import APIRouter, FastAPI, Request
from fastapi.routing import APIRoute
from starlette.types import Receive, Scope, Send

from codehub.api.problems import Invalid

PREFIX = "/api/v1"


class CheckedRoute(APIRoute):
    """A route that refuses query parameters it does not declare.

    Pays for: one workspace by API. As a dependency the check would be solved for each request, with a query or not.
    """

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Raise 422 for an unknown parameter, before anything else of the route runs."""
        if scope["query_string"] and scope["method"] in (self.methods or ()):  # otherwise 405
            known = {field.alias for field in self.dependant.query_params}
            for name in Request(scope).query_params:
                if name not in known:
                    raise Invalid(name, "there is no such parameter")
        await super().handle(scope, receive, send)


def api_router(prefix: str, tag: str) -> APIRouter:
    """Build a router for calls under ``/api/v1``."""
    return APIRouter(prefix=PREFIX + prefix, tags=[tag], route_class=CheckedRoute)


def add_flat(app: FastAPI, routers: Iterable[APIRouter]) -> None:
    """Add the routers' routes to the application's own list."""
    for router in routers:
        app.router.routes.extend(router.routes)
