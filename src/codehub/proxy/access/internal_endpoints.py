"""Serve the proxy's internal endpoints, under ``/_codehub/`` on every host.

On the dashboard's host: the pages' script and the tab's, ``ready/{id}`` (whether the workspace's editor
answers), ``limit/{id}`` (stop buttons, for people redirected from a workspace host) and ``signin``, which
redirects a signed-in person to a workspace host with a one-time code. On a workspace host: the scripts, ``ready``,
``events``, ``state`` and ``logs`` (the API's stream of this workspace, the workspace as the API shows it, and its
output while it starts, with the principal signed by the proxy, since the dashboard's cookie is not sent there) and
``auth``, which exchanges the code for a cookie of exactly that host. On the origin of a port also ``share``, which
exchanges the key of a public link for a cookie. The one change a page there can ask for is
``keep-awake``: one hour, for the button in the tab. A page of the workspace could as well pretend to be used.

On every host: ``alive``, for whoever watches this process. ``/health/…`` is the API's answer: a proxy in a pod of its
own must not be restarted, with all its WebSockets, because the API is away.
"""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from urllib.parse import parse_qs, quote, urlsplit
from uuid import UUID

from codehub.domain.waking import Phase, WakeResult
from codehub.proxy.access.cache import DirectoryCache
from codehub.proxy.access.policy import has_key, is_visitor
from codehub.proxy.answers import Answer, method_not_allowed, not_found, problem, redirect, unauthorized
from codehub.proxy.http1.request import RequestHead
from codehub.proxy.identity import PRINCIPAL_HEADER, CookieNames, sign_principal
from codehub.proxy.interfaces import Interfaces, Principal, WorkspaceTarget
from codehub.proxy.pages import PageContext, Pages
from codehub.proxy.routing import INTERNAL_PREFIX, Route, label_of, parse_id
from codehub.proxy.settings import ProxySettings
from codehub.proxy.upstream.destinations import Destination, Destinations

UpstreamProbe = Callable[[WorkspaceTarget], Awaitable[bool]]


@dataclass(frozen=True, slots=True)
class ToApi:
    """Forward the request to the API, with this path."""

    to: Destination
    path: bytes


class InternalEndpoints:
    """Handlers of ``/_codehub/…``.

    The caller has checked where the request comes from.
    """

    def __init__(
        self,
        ports: Interfaces,
        settings: ProxySettings,
        *,
        access: DirectoryCache,
        pages: Pages,
        probe: UpstreamProbe,
        destinations: Destinations,
    ) -> None:
        self._destinations = destinations
        self._ports = ports
        self._settings = settings
        self._access = access
        self._pages = pages
        self._probe = probe
        self._cookies = CookieNames.of(secure=settings.secure)

    async def serve(self, request: RequestHead, route: Route, principal: Principal | None) -> Answer | ToApi:
        """Answer an internal endpoint. ``principal`` None: not signed in."""
        url = urlsplit(route.path.decode("latin-1"))
        name, _, argument = url.path[len(INTERNAL_PREFIX) :].partition("/")
        query = {key: values[-1] for key, values in parse_qs(url.query).items()}
        if name == "keep-awake" and not argument and route.on_workspace_host:
            return await self._keep_awake(request, route.workspace_id, principal)
        if request.websocket or request.method not in (b"GET", b"HEAD"):
            return method_not_allowed("GET", "HEAD")
        if not argument and (script := self._pages.script(name)) is not None:
            return script
        if name == "alive" and not argument:
            return Answer(204)
        workspace_id = route.workspace_id if route.on_workspace_host else parse_id(argument.encode("latin-1"))
        match name:
            case "ready":
                return await self._ready(workspace_id, principal)
            case "events" if route.on_workspace_host:
                return await self._from_api(workspace_id, principal, "/events")
            case "state" if route.on_workspace_host:
                return await self._from_api(workspace_id, principal, "")
            case "ports" if route.on_workspace_host:
                return await self._from_api(workspace_id, principal, "/ports")
            case "logs" if route.on_workspace_host:
                return await self._from_api(workspace_id, principal, "/logs")
            case "auth" if route.on_workspace_host:
                return await self._auth(route, query)
            case "share" if route.on_workspace_host and not argument:
                return await self._enter_by_link(request, route, query)
            case "signin" if not route.on_workspace_host:
                return await self._sign_in(request, query, principal)
            case "limit" if not route.on_workspace_host:
                return await self._limit(request, workspace_id, principal)
        return not_found()

    async def _target(self, workspace_id: UUID | None, principal: Principal) -> WorkspaceTarget | None:
        target = await self._access.target(workspace_id) if workspace_id else None
        return target if target is not None and principal.may_open(target) else None

    async def _ready(self, workspace_id: UUID | None, principal: Principal | None) -> Answer:
        """Answer 204 once the workspace's editor answers: the waiting page then reloads."""
        if principal is None:
            return unauthorized()
        target = await self._target(workspace_id, principal)
        if target is None:
            return not_found()
        if target.phase is Phase.RUNNING and await self._probe(target):
            return Answer(204)
        return problem(503, "not_ready", "The workspace does not answer yet.", retry_after=1)

    async def _keep_awake(
        self, request: RequestHead, workspace_id: UUID | None, principal: Principal | None
    ) -> Answer | ToApi:
        """A body would choose the hours: the page of a workspace does not."""
        if request.method != b"POST":
            return method_not_allowed("POST")
        if request.has_body:
            return problem(400, "validation_failed", "This request has no body.")
        return await self._from_api(workspace_id, principal, "/keep-awake")

    async def _from_api(
        self, workspace_id: UUID | None, principal: Principal | None, resource: str
    ) -> Answer | ToApi:
        """Forward to the API's resource of this very workspace, with the method that the caller has checked."""
        if principal is None:
            return unauthorized()
        target = await self._target(workspace_id, principal)
        if target is None:
            return not_found()
        if resource == "/logs" and target.phase is Phase.RUNNING and not target.starting_up:
            return not_found()  # for the waiting page: pages of the workspace itself are not given its logs
        claim = sign_principal(principal, secret=self._settings.internal_secret, now=time.time())
        extra = f"{PRINCIPAL_HEADER}: {claim}\r\n".encode()
        path = f"/api/v1/workspaces/{workspace_id}{resource}".encode()
        return ToApi(self._destinations.api(extra=extra), path)

    async def _sign_in(
        self, request: RequestHead, query: dict[str, str], principal: Principal | None
    ) -> Answer:
        if principal is None:
            here = quote(safe_next(request.target.decode("latin-1")), safe="")
            return redirect(303, f"/login?next={here}")
        workspace_id = parse_id(query.get("workspace", "").encode("latin-1", "replace"))
        if self._settings.base_domain is None or not _is_port(query.get("port")):
            return self._pages.not_found(PageContext.of(request))
        port = int(query.get("port", "0")) or None
        target = await self._access.target(workspace_id) if workspace_id else None
        if target is None or not (
            principal.may_open(target)
            or is_visitor(port, principal=principal, target=target, link_key=None, now=time.time())
        ):
            return self._pages.not_found(PageContext.of(request))
        code = await self._ports.sign_in.issue_code(principal, target.id)
        # The host is built from the id: nothing in the request can send the code to another host.
        origin = self._settings.workspace_origin(label_of(target.id, port))
        next_path = quote(safe_next(query.get("next", "/")), safe="")
        return redirect(303, f"{origin}/_codehub/auth?code={quote(code, safe='')}&next={next_path}")

    async def _auth(self, route: Route, query: dict[str, str]) -> Answer:
        if route.workspace_id is None:
            return not_found()
        next_path = safe_next(query.get("next", "/"))
        secret = await self._ports.sign_in.redeem_code(query.get("code", ""), route.workspace_id)
        if secret is None:  # used or expired: the page redirects to the sign-in again, with a new code
            return redirect(303, next_path)
        secure = "; Secure" if self._settings.secure else ""
        cookie = f"{self._cookies.workspace.decode()}={secret}; Path=/; HttpOnly; SameSite=Lax{secure}"
        return redirect(303, next_path, fields=(("Set-Cookie", cookie),))

    async def _enter_by_link(self, request: RequestHead, route: Route, query: dict[str, str]) -> Answer:
        """Exchange the key of a public link for a cookie of exactly this port's origin.

        A wrong key and a workspace that does not exist get the same answer.
        """
        target = await self._access.target(route.workspace_id) if route.workspace_id else None
        share = target.shares.get(route.port) if target is not None and route.port is not None else None
        now = time.time()
        key = query.get("key", "").encode("latin-1", "replace")
        if share is None or now >= share.expires_at or not has_key(share, key):
            return self._pages.link_over(PageContext.of(request))
        secure = "; Secure" if self._settings.secure else ""
        lasts = int(share.expires_at - now) + 1
        cookie = f"{self._cookies.share.decode()}={share.key}; Path=/; HttpOnly; SameSite=Lax; Max-Age={lasts}{secure}"
        # The key stays out of the address bar, the history's titles and what the page sends as its referrer.
        fields = (("Set-Cookie", cookie), ("Referrer-Policy", "no-referrer"))
        return redirect(303, safe_next(query.get("next", "/")), fields=fields)

    async def _limit(
        self, request: RequestHead, workspace_id: UUID | None, principal: Principal | None
    ) -> Answer:
        """Wake the workspace if a place is free now, else show the page about the limit."""
        context = PageContext.of(request)
        if principal is None:
            return redirect(303, "/login?next=" + quote(safe_next(request.target.decode("latin-1")), safe=""))
        target = await self._target(workspace_id, principal)
        if target is None:
            return self._pages.not_found(context)
        there = self._settings.workspace_origin(str(target.id)) + "/"
        if not request.is_visit or target.phase is not Phase.ASLEEP:
            return redirect(303, there)
        outcome = await self._ports.directory.wake(target.id, principal)
        self._access.workspace_changed(target.id)
        if outcome.result is WakeResult.LIMIT:
            return self._pages.limit(context, target, outcome)
        return redirect(303, there)


def safe_next(path: str) -> str:
    """Return ``path`` if it is local, else ``/``: redirects must stay on this site."""
    if not path.startswith("/") or path.startswith("//") or "\\" in path:
        return "/"
    if any(ord(char) <= 0x20 or ord(char) >= 0x7F for char in path):
        return "/"
    return path


def _is_port(text: str | None) -> bool:
    return text is None or (text.isascii() and text.isdigit() and 0 < int(text) < 65536)
