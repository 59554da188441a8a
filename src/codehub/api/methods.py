"""Find the methods a path allows, over all routes.

The router itself reports those of the first matching route only. ``app.state.is_file_or_page`` is set by the
dashboard: whether it serves a path.
"""

from fastapi import Request
from starlette.routing import Match, Route

FILES = frozenset({"GET", "HEAD"})
EVERY_ADDRESS = "/{path:path}"
"""The dashboard's catch-all route. Not counted: it matches every path."""


def methods_at(request: Request) -> list[str]:
    """Return the methods for ``Allow``. Empty: nothing is served at this path."""
    found: set[str] = set()
    for route in request.app.router.routes:
        if not isinstance(route, Route) or route.path == EVERY_ADDRESS:
            continue
        if route.matches(request.scope)[0] is not Match.NONE:
            found |= route.methods or set()
    if not found and request.app.state.is_file_or_page(request.url.path):
        found |= FILES
    return sorted(found)
