"""Who gets in: the table of spec 06, as a pure function.

``judge`` is asked on every request with what memory knows. Everything it can answer with is a ``Verdict``;
carrying one out (waking, rendering a page) is the concierge's work.
"""

from enum import Enum

from codehub.proxy.access.fetch_metadata import may_enter, names_own_origin
from codehub.proxy.http1.request import RequestHead
from codehub.proxy.identity import TOKEN_PREFIX
from codehub.proxy.interfaces import Phase, Principal, WorkspaceTarget
from codehub.proxy.routing import Route


class Verdict(Enum):
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


def judge(
    request: RequestHead,
    route: Route,
    *,
    principal: Principal | None,
    target: WorkspaceTarget | None,
    scheme: bytes,
    by_token: bool = False,
    own_origins: bool = False,
) -> Verdict:
    """``own_origins``: each workspace has one, and pages of a workspace belong nowhere else."""
    if principal is None:  # before anything else: strangers learn nothing about what exists
        return Verdict.SIGN_IN if request.is_navigation else Verdict.UNAUTHORIZED
    if not by_token and not request.websocket and not may_enter(request, scheme):
        return Verdict.FOREIGN_PAGE  # whatever it asked for: a page learns nothing about what exists either
    if target is None or not principal.may_open(target):
        return Verdict.NOT_FOUND
    if own_origins and not route.own_origin and not by_token:
        # Under a path its pages would be the dashboard's and could act as the person. A page at the own
        # origin could lead there by itself, so the path is closed to browsers, not just left unused.
        return Verdict.MOVE
    if request.websocket and not has_own_origin(request, scheme):
        return Verdict.BAD_ORIGIN
    if route.needs_slash:
        return Verdict.ADD_SLASH
    match target.phase:
        case Phase.RUNNING:
            at_root = route.own_origin and route.path[:2] in (b"/", b"/?")
            if at_root and not target.strip_prefix and route.port is None and not request.websocket:
                return Verdict.ENTER_BASE_PATH
            return Verdict.RELAY
        case Phase.ERROR:
            return Verdict.BROKEN
        case Phase.WAKING:
            return Verdict.WAIT if request.is_visit else Verdict.ASLEEP
        case Phase.ASLEEP:
            # A forgotten tab that reconnects is nobody's wish: only a person opening a page wakes.
            return Verdict.WAKE if request.is_visit else Verdict.ASLEEP


def has_own_origin(request: RequestHead, scheme: bytes) -> bool:
    """Browsers name the page a WebSocket belongs to and send cookies along whoever it is.

    The name must be exactly the origin that was asked. Programs with a token send no Origin and no
    cookie a foreign page could have borrowed.
    """
    origin = request.fields.get(b"origin")
    if origin is None:
        authorization = request.fields.get(b"authorization", b"")
        return authorization[:7].lower() == b"bearer " and authorization[7:].startswith(TOKEN_PREFIX)
    return names_own_origin(request, scheme)
