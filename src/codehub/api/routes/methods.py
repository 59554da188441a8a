"""Which methods an address knows. The router only tells those of the first route that fits the address.

``app.state.is_file_or_page`` comes from the dashboard: which addresses it answers.
"""

from fastapi import Request
from starlette.routing import Match, Route

FILES = frozenset({"GET", "HEAD"})
EVERY_ADDRESS = "/{path:path}"
"""The dashboard's route fits every address, so it says nothing about any."""


def methods_at(request: Request) -> list[str]:
    """For ``Allow``. Empty: there is nothing at this address."""
    found: set[str] = set()
    for route in request.app.router.routes:
        if not isinstance(route, Route) or route.path == EVERY_ADDRESS:
            continue
        if route.matches(request.scope)[0] is not Match.NONE:
            found |= route.methods or set()
    if not found and request.app.state.is_file_or_page(request.url.path):
        found |= FILES
    return sorted(found)
