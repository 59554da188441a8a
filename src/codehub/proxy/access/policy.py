"""Decide who may open what: the access table, as a pure function.

``decide`` runs on every request that no cached admission matches. It returns an ``AccessDecision``;
``Admission`` carries it out (waking, rendering a page).
"""

from enum import Enum

from codehub.domain.waking import Phase
from codehub.proxy.access.fetch_metadata import may_enter, names_own_origin
from codehub.proxy.http1.request import RequestHead
from codehub.proxy.identity import TOKEN_PREFIX
from codehub.proxy.interfaces import Principal, WorkspaceTarget
from codehub.proxy.routing import Route


class AccessDecision(Enum):
    """What to do with a request."""

    SIGN_IN = "sign in"  # a page load without a valid credential
    UNAUTHORIZED = "unauthorized"
    FOREIGN_PAGE = "foreign page"  # sent by a page of another site or workspace, other than a plain link
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
    """Decide about a request.

    The order matters: the first checks reveal nothing about what exists.

    ``workspace_hosts``: each workspace has a host of its own, and browsers may open it nowhere else.
    """
    if principal is None:  # first: without a sign-in nothing reveals what exists
        return AccessDecision.SIGN_IN if request.is_navigation else AccessDecision.UNAUTHORIZED
    if not by_token and not request.websocket and not may_enter(request, scheme):
        return AccessDecision.FOREIGN_PAGE  # before the target: other pages must not learn what exists either
    if target is None or not principal.may_open(target):
        return AccessDecision.NOT_FOUND
    if workspace_hosts and not route.on_workspace_host and not by_token:
        # Under a path of the dashboard's origin a workspace's pages could act as the person. A page on its own
        # host could link to that path, so the path is closed to browsers, not just unused.
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
            # Only a person opening a page wakes: a forgotten tab that reconnects must not.
            return AccessDecision.WAKE if request.is_visit else AccessDecision.ASLEEP


def is_same_origin(request: RequestHead, scheme: bytes) -> bool:
    """Whether a page of the same origin, or a program with a token, opens a WebSocket.

    Browsers send cookies with a WebSocket whatever page opened it, and name that page's origin in ``Origin``: it
    must equal the requested origin. A program with a token sends no Origin, and no cookie that another site's
    page could misuse.
    """
    origin = request.fields.get(b"origin")
    if origin is None:
        authorization = request.fields.get(b"authorization", b"")
        return authorization[:7].lower() == b"bearer " and authorization[7:].startswith(TOKEN_PREFIX)
    return names_own_origin(request, scheme)
