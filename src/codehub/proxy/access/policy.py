"""Who gets in: the table of spec 06, as a pure function.

``decide`` is asked on every request with what memory knows. Everything it can answer with is a ``AccessDecision``;
carrying one out (waking, rendering a page) is the admission's work.
"""

from enum import Enum

from codehub.proxy.access.fetch_metadata import may_enter, names_own_origin
from codehub.proxy.http1.request import RequestHead
from codehub.proxy.identity import TOKEN_PREFIX
from codehub.proxy.interfaces import Phase, Principal, WorkspaceTarget
from codehub.proxy.routing import Route


class AccessDecision(Enum):
    SIGN_IN = "sign in"  # page load of somebody unknown
    UNAUTHORIZED = "unauthorized"
    FOREIGN_PAGE = "foreign page"  # of another site or workspace, and more than a link
    NOT_FOUND = "not found"
    BAD_ORIGIN = "bad origin"
    ADD_SLASH = "add slash"
    ENTER_BASE_PATH = "enter base path"
    MOVE = "move to its own origin"
    RELAY = "relay"
    WAKE = "wake"
    WAIT = "wait"
    ASLEEP = "asleep"
    BROKEN = "broken"


def decide(
    request: RequestHead,
    route: Route,
    *,
    principal: Principal | None,
    target: WorkspaceTarget | None,
    scheme: bytes,
    by_token: bool = False,
    workspace_hosts: bool = False,
) -> AccessDecision:
    """``workspace_hosts``: each workspace has one, and pages of a workspace belong nowhere else."""
    if principal is None:  # before anything else: strangers learn nothing about what exists
        return AccessDecision.SIGN_IN if request.is_navigation else AccessDecision.UNAUTHORIZED
    if not by_token and not request.websocket and not may_enter(request, scheme):
        return (
            AccessDecision.FOREIGN_PAGE
        )  # whatever it asked for: a page learns nothing about what exists either
    if target is None or not principal.may_open(target):
        return AccessDecision.NOT_FOUND
    if workspace_hosts and not route.on_workspace_host and not by_token:
        # Under a path its pages would be the dashboard's and could act as the person. A page at the own
        # origin could lead there by itself, so the path is closed to browsers, not just left unused.
        return AccessDecision.MOVE
    if request.websocket and not is_same_origin(request, scheme):
        return AccessDecision.BAD_ORIGIN
    if route.needs_slash:
        return AccessDecision.ADD_SLASH
    match target.phase:
        case Phase.RUNNING:
            at_root = route.on_workspace_host and route.path[:2] in (b"/", b"/?")
            if at_root and not target.strip_prefix and route.port is None and not request.websocket:
                return AccessDecision.ENTER_BASE_PATH
            return AccessDecision.RELAY
        case Phase.ERROR:
            return AccessDecision.BROKEN
        case Phase.WAKING:
            return AccessDecision.WAIT if request.is_visit else AccessDecision.ASLEEP
        case Phase.ASLEEP:
            # A forgotten tab that reconnects is nobody's request: only a person opening a page wakes.
            return AccessDecision.WAKE if request.is_visit else AccessDecision.ASLEEP


def is_same_origin(request: RequestHead, scheme: bytes) -> bool:
    """Browsers name the page a WebSocket belongs to and send cookies along whoever it is.

    The name must be exactly the origin that was asked. Programs with a token send no Origin and no
    cookie a foreign page could have borrowed.
    """
    origin = request.fields.get(b"origin")
    if origin is None:
        authorization = request.fields.get(b"authorization", b"")
        return authorization[:7].lower() == b"bearer " and authorization[7:].startswith(TOKEN_PREFIX)
    return names_own_origin(request, scheme)
