"""Decide who may open what: the access table, as a pure function.

``decide`` runs on every request that no cached admission matches. It returns an ``AccessDecision``;
``Admission`` carries it out (waking, rendering a page).

A *visitor* opens a port that its owner has shared. Visitors are let in at that port's own origin alone, and what they
send neither wakes nor keeps awake: the owner decides when the workspace runs.
"""

import hmac
from enum import Enum

from codehub.domain.port_shares import ShareLevel
from codehub.domain.waking import Phase
from codehub.proxy.access.fetch_metadata import may_enter, names_own_origin
from codehub.proxy.http1.request import RequestHead
from codehub.proxy.identity import TOKEN_PREFIX
from codehub.proxy.interfaces import Principal, SharedPort, WorkspaceTarget
from codehub.proxy.routing import Route
from codehub.proxy.settings import TcpAddress


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
    RELAY_VISITOR = "relay, a visitor's"  # to a shared port, and no activity
    VISITOR_WAITS = "visitor waits"  # the workspace does not run, and a visitor changes nothing about that
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
    link_key: bytes | None = None,
    now: float = 0.0,
) -> AccessDecision:
    """Decide about a request.

    The order matters: the first checks reveal nothing about what exists.

    ``workspace_hosts``: each workspace has a host of its own, and browsers may open it nowhere else.
    ``link_key``: of a public link, as the cookie of a port's origin has it; ``now``: seconds since the epoch.
    """
    port = route.port if route.on_workspace_host else None
    visits = is_visitor(port, principal=principal, target=target, link_key=link_key, now=now)
    if principal is None and not visits:  # first: without a sign-in nothing reveals what exists
        return AccessDecision.SIGN_IN if request.is_navigation else AccessDecision.UNAUTHORIZED
    if not by_token and not request.websocket and not may_enter(request, scheme):
        return AccessDecision.FOREIGN_PAGE  # before the target: other pages must not learn what exists either
    if target is None or not (visits or (principal is not None and principal.may_open(target))):
        return AccessDecision.NOT_FOUND
    if workspace_hosts and not route.on_workspace_host and not by_token:
        # Under a path of the dashboard's origin a workspace's pages could act as the person. A page on its own
        # host could link to that path, so the path is closed to browsers, not just unused.
        return AccessDecision.MOVE
    if request.websocket and not is_same_origin(request, scheme):
        return AccessDecision.BAD_ORIGIN
    if visits:
        return AccessDecision.RELAY_VISITOR if target.phase is Phase.RUNNING else AccessDecision.VISITOR_WAITS
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


def is_visitor(
    port: int | None,
    *,
    principal: Principal | None,
    target: WorkspaceTarget | None,
    link_key: bytes | None,
    now: float,
) -> bool:
    """Whether the share of ``port``, and nothing else, lets this request in.

    ``port``: of the requested origin; None: it is not the origin of a port. The IDE's own port is never shared: who
    opens it has the terminal.
    """
    if port is None or target is None or port not in target.shares:
        return False
    if principal is not None and principal.may_open(target):
        return False
    if isinstance(target.address, TcpAddress) and target.address.port == port:
        return False
    share = target.shares[port]
    if now >= share.expires_at:
        return False
    match share.level:
        case ShareLevel.PRIVATE:
            return False
        case ShareLevel.SIGNED_IN:
            return principal is not None
        case ShareLevel.PUBLIC:
            # Only the link: being signed in is no substitute for having been given it.
            return has_key(share, link_key)


def has_key(share: SharedPort, key: bytes | None) -> bool:
    """Whether ``key`` is the one of the share's public link. Takes the same time for every wrong one."""
    return share.key is not None and key is not None and hmac.compare_digest(share.key.encode(), key)


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
