"""Who calls, and whether the call came from a page of this site. Every protected route asks here.

A browser sends its cookie with every request to this host, also those another site made it send. So a
request that changes something and is known by its cookie alone must say where it comes from:
``Sec-Fetch-Site`` where the browser sends it (pages cannot forge it), and ``Origin``. That has to be one of
our own: a foreign name can be pointed at this machine, and ``Origin`` and ``Host`` then agree on it. A token
is never sent by itself, so none of this is asked of it.
"""

import socket
from ipaddress import ip_address
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import Depends, Request

from codehub.api.problems import Refused
from codehub.api.state import AppState, State
from codehub.services.identity import TOKEN_PREFIX, Principal

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
PRINCIPAL_HEADER = "x-codehub-principal"
LONGEST_SECRET = 512


async def current(request: Request, state: State) -> Principal:
    """The person, or 401. Also refuses what another site made the browser send."""
    principal = await find_caller(request, state)
    if principal is None:
        raise Refused("unauthorized")
    if principal.by_browser and request.method not in SAFE_METHODS and not is_same_site(request, state):
        raise _not_from_here(request)
    request.scope["codehub.user_id"] = principal.user.id  # for the access log
    return principal


async def admin(principal: "Caller") -> Principal:
    if not principal.user.is_admin:
        raise Refused("forbidden")
    return principal


async def from_here(request: Request, state: State) -> None:
    """For sign-in, which has no session yet: a page of another site must not sign somebody in as another.

    Programs without a browser say nothing about their origin, and are let through.
    """
    if _said_origin(request) and not is_same_site(request, state):
        raise _not_from_here(request)


async def find_caller(request: Request, state: AppState) -> Principal | None:
    """A token first: whoever sends one means it."""
    fresh = request.method not in SAFE_METHODS
    authorization = request.headers.get("authorization")
    if authorization is not None:
        scheme, _, token = authorization.partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token.startswith(TOKEN_PREFIX) or len(token) > LONGEST_SECRET:
            return None
        return await state.identities.of_token(token, fresh=fresh)
    vouched = request.headers.get(PRINCIPAL_HEADER)
    if vouched is not None and state.deps.verify_principal is not None and came_by_socket(request):
        user_id = state.deps.verify_principal(vouched)
        return await state.identities.of_user(user_id, fresh=fresh) if user_id is not None else None
    secret = session_secret(request, state)
    return await state.identities.of_session(secret, fresh=fresh) if secret is not None else None


def session_secret(request: Request, state: AppState) -> str | None:
    """The one session cookie. Twice the same name means that somebody planted one: then neither counts."""
    name = cookie_name(state) + "="
    found: list[str] = []
    for header, value in request.scope["headers"]:
        if header == b"cookie":
            for pair in value.decode("latin-1").split(";"):
                pair = pair.strip(" \t")  # and no other white space: the proxy cuts names there too
                if pair.startswith(name):
                    found.append(pair[len(name) :])
    if len(found) != 1 or not 0 < len(found[0]) <= LONGEST_SECRET:
        return None
    return found[0]


def cookie_name(state: AppState) -> str:
    """Over HTTPS a name that no sibling domain and no plain HTTP page can set."""
    return "__Host-codehub_session" if state.settings.is_https else "codehub_session"


def client_address(request: Request, state: AppState) -> str:
    """The person's address: of the connection, or what our own proxy says of it."""
    peer = request.client.host if request.client else ""
    if came_by_socket(request) or peer in state.settings.trusted_peers:
        forwarded = request.headers.get("x-forwarded-for", "")
        # The last one is what the trusted peer saw itself; those before it are hearsay.
        return forwarded.rpartition(",")[2].strip()[:64] or peer or "local"
    return peer


def came_by_socket(request: Request) -> bool:
    """A Unix socket has no peer address. Who can open it is decided by the file system."""
    return request.client is None or not request.client.host


def is_same_site(request: Request, state: AppState) -> bool:
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None and site not in {"same-origin", "none"}:
        return False
    if origin is None or (origin == "null" and site is not None):  # null: Referrer-Policy: no-referrer
        return site is not None
    said, base = urlsplit(origin), urlsplit(state.settings.base_url)
    if said.scheme != base.scheme:
        return False
    netloc = said.netloc.lower()
    if netloc == base.netloc.lower():
        return True
    return netloc == request.headers.get("host", "").lower() and _is_our_name(said.hostname, base.hostname)


def _is_our_name(name: str | None, base: str | None) -> bool:
    """Besides the configured one: what nobody else's DNS can make a name of this machine."""
    if name in {base, "localhost", socket.gethostname().lower()}:
        return True
    try:
        ip_address(name or "")
    except ValueError:
        return False
    return True


def _not_from_here(request: Request) -> Refused:
    origin, host = request.headers.get("origin", ""), request.headers.get("host", "")
    if urlsplit(origin).netloc.lower() != host.lower():
        return Refused("csrf")
    detail = f"{host} is not a name of this CodeHub. If people are to open it there, set CODEHUB_BASE_URL."
    return Refused("csrf", detail)


def _said_origin(request: Request) -> bool:
    return "origin" in request.headers or "sec-fetch-site" in request.headers


Caller = Annotated[Principal, Depends(current)]
Admin = Annotated[Principal, Depends(admin)]
FromHere = Depends(from_here)
