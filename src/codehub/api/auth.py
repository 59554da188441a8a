"""Authenticate requests, and refuse cross-site ones (CSRF).

Used by every protected route.

A browser sends its cookie with every request to this host, including those that another site causes. So an
unsafe request that authenticates by cookie must prove where it comes from: by ``Sec-Fetch-Site`` where the
browser sends it (pages cannot forge it), and by ``Origin``. ``Origin`` has to be one of our own names: another
domain can be pointed at this machine, and ``Origin`` and ``Host`` then agree (DNS rebinding). A browser never
sends a token by itself, so requests with a token are not checked.
"""

import re
import socket
from ipaddress import ip_address
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import Depends, Request, WebSocket
from starlette.requests import HTTPConnection

from codehub.api.problems import Refused
from codehub.api.state import AppState, state_of
from codehub.kit.addresses import client_of
from codehub.services.identity import TOKEN_PREFIX, Principal

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
# Reading with this starts a workspace: another site's link must not.
_WAKES = re.compile(rb"(^|&)wake=(?!false(&|$))")
PRINCIPAL_HEADER = "x-codehub-principal"
MAX_SECRET_LENGTH = 512


async def current(request: Request) -> Principal:
    """Return the principal, or raise 401. Raises 403 for unsafe cross-site requests.

    Pays for: one workspace by API. The state is read, not depended on: FastAPI solves each dependency for itself.
    """
    state = state_of(request)
    is_safe = request.method in SAFE_METHODS and not _WAKES.search(request.scope["query_string"])
    principal = await find_caller(request, state, fresh=not is_safe)
    if principal is None:
        raise Refused("unauthorized")
    if principal.by_browser and not is_safe and not is_same_site(request, state):
        raise _cross_site(request)
    request.scope["codehub.user_id"] = principal.user.id  # for the access log
    return principal


async def caller_of_socket(socket: WebSocket, state: AppState) -> Principal:
    """Return the principal of a WebSocket, or raise 401. Raises 403 if a browser opens it from another site's page."""
    principal = await find_caller(socket, state, fresh=True)
    if principal is None:
        raise Refused("unauthorized")
    if principal.by_browser and not is_same_site(socket, state):
        raise _cross_site(socket)
    return principal


async def admin(principal: "Caller") -> Principal:
    """Return the principal if it is an administrator, or raise 403."""
    if not principal.user.is_admin:
        raise Refused("forbidden")
    return principal


async def require_same_site(request: Request) -> None:
    """Refuse cross-site sign-ins: no other site may sign a person in as another.

    Programs without a browser send no origin, and are admitted.
    """
    if _names_origin(request) and not is_same_site(request, state_of(request)):
        raise _cross_site(request)


async def find_caller(request: HTTPConnection, state: AppState, *, fresh: bool) -> Principal | None:
    """Find the principal by token, else by the proxy's header, else by session cookie.

    ``fresh``: not from the cache, for whatever changes something.
    """
    authorization = request.headers.get("authorization")
    if authorization is not None:
        scheme, _, token = authorization.partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token.startswith(TOKEN_PREFIX) or len(token) > MAX_SECRET_LENGTH:
            return None
        return await state.identities.of_token(token, fresh=fresh)
    signed = request.headers.get(PRINCIPAL_HEADER)
    if signed is not None and state.deps.verify_principal is not None and came_through_socket(request):
        user_id = state.deps.verify_principal(signed)
        return await state.identities.of_user(user_id, fresh=fresh) if user_id is not None else None
    secret = session_secret(request, state)
    return await state.identities.of_session(secret, fresh=fresh) if secret is not None else None


def session_secret(request: HTTPConnection, state: AppState) -> str | None:
    """Return the session cookie's value.

    None if it occurs twice: another origin may have set one.
    """
    name = cookie_name(state) + "="
    found: list[str] = []
    for header, value in request.scope["headers"]:
        if header == b"cookie":
            for pair in value.decode("latin-1").split(";"):
                pair = pair.strip(" \t")  # and no other white space, exactly as the proxy does
                if pair.startswith(name):
                    found.append(pair[len(name) :])
    if len(found) != 1 or not 0 < len(found[0]) <= MAX_SECRET_LENGTH:
        return None
    return found[0]


def cookie_name(state: AppState) -> str:
    """Return the session cookie's name.

    ``__Host-`` over HTTPS: sibling domains cannot set it.
    """
    return "__Host-codehub_session" if state.settings.is_https else "codehub_session"


def client_address(request: Request, state: AppState) -> str:
    """Return the client's address: the peer's, or that a trusted peer forwards."""
    peer = request.client.host if request.client else ""
    trusted = state.settings.trusted_peers
    if not came_through_socket(request) and peer not in trusted:
        return peer
    forwarded = request.headers.get("x-forwarded-for", "")
    chain = [each.strip() for each in forwarded.split(",") if each.strip()]
    return client_of(chain, trusted)[:64] or peer or "local"


def came_through_socket(request: HTTPConnection) -> bool:
    """Whether the request came through the Unix socket, which has no peer address.

    File permissions decide which processes can open it.
    """
    return request.client is None or not request.client.host


def is_same_site(request: HTTPConnection, state: AppState) -> bool:
    """Whether ``Sec-Fetch-Site`` and ``Origin`` name a page of this CodeHub.

    False if both are missing.
    """
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None and site not in {"same-origin", "none"}:
        return False
    if origin is None or (origin == "null" and site is not None):  # null: Referrer-Policy: no-referrer
        return site is not None
    parsed, base = urlsplit(origin), urlsplit(state.settings.base_url)
    if parsed.scheme != base.scheme:
        return False
    netloc = parsed.netloc.lower()
    if netloc == base.netloc.lower():
        return True
    return netloc == request.headers.get("host", "").lower() and _is_our_name(parsed.hostname, base.hostname)


def _is_our_name(name: str | None, base: str | None) -> bool:
    """Whether it is the configured name, or one that foreign DNS cannot use: localhost, our host name, an IP."""
    if name in {base, "localhost", socket.gethostname().lower()}:
        return True
    try:
        ip_address(name or "")
    except ValueError:
        return False
    return True


def _cross_site(request: HTTPConnection) -> Refused:
    origin, host = request.headers.get("origin", ""), request.headers.get("host", "")
    if urlsplit(origin).netloc.lower() != host.lower():
        return Refused("csrf")
    detail = f"{host} is not a name of this CodeHub. If people are to open it there, set CODEHUB_BASE_URL."
    return Refused("csrf", detail)


def _names_origin(request: Request) -> bool:
    return "origin" in request.headers or "sec-fetch-site" in request.headers


Caller = Annotated[Principal, Depends(current)]
Admin = Annotated[Principal, Depends(admin)]
RequireSameSite = Depends(require_same_site)
