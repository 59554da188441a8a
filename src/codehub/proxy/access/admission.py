"""Carry out access decisions: wake a workspace, redirect to sign-in, show a page.

Off the hot path: everything here may wait for the directory, for 10 s at most. If the directory fails or
hangs, that one request is answered 503 and the connection stays usable.
"""

import asyncio
import time
from dataclasses import dataclass, replace
from functools import partial
from urllib.parse import quote
from uuid import UUID

import structlog

from codehub.domain.waking import WakeOutcome, WakeResult
from codehub.kit.single_flight import SingleFlight
from codehub.proxy.access.cache import DirectoryCache
from codehub.proxy.access.fetch_metadata import may_enter
from codehub.proxy.access.internal_endpoints import InternalEndpoints, safe_next
from codehub.proxy.access.policy import AccessDecision, decide
from codehub.proxy.access.rechecks import Verdict, recheck
from codehub.proxy.answers import Answer, not_found, problem, redirect, refused, unauthorized
from codehub.proxy.http1.request import RequestHead
from codehub.proxy.identity import Identity
from codehub.proxy.interfaces import Directory, Interfaces, Principal, WorkspaceTarget
from codehub.proxy.metrics import Metrics
from codehub.proxy.pages import PageContext, Pages
from codehub.proxy.routing import Route, RouteKind, label_of
from codehub.proxy.settings import ProxySettings
from codehub.proxy.upstream.destinations import Destination, Destinations

log = structlog.get_logger(__name__)

DIRECTORY_TIMEOUT = 10.0
LOG_INTERVAL = 60.0


@dataclass(frozen=True, slots=True)
class Forward:
    """Admitted: forward the request to ``to``, with this path."""

    to: Destination
    path: bytes


class Admission:
    """Decides about requests that no cache can answer, and builds the proxy's answers."""

    def __init__(
        self,
        ports: Interfaces,
        settings: ProxySettings,
        *,
        access: DirectoryCache,
        internal: InternalEndpoints,
        pages: Pages,
        metrics: Metrics,
        destinations: Destinations,
    ) -> None:
        self._destinations = destinations
        self._directory: Directory = ports.directory
        self._settings = settings
        self._access = access
        self._internal = internal
        self._pages = pages
        self._metrics = metrics
        self._scheme = settings.scheme.encode()
        self._log_again_at = float("-inf")
        # Not for speed: one wake, however many requests of a page find the workspace asleep (test_table.py).
        self._wakes: SingleFlight[tuple[UUID, UUID], WakeOutcome] = SingleFlight()

    def recall(
        self, request: RequestHead, route: Route, identity: Identity, now: float
    ) -> tuple[Destination, float] | None:
        """Find the destination in the caches, and until when it is valid. None: the directory must be asked."""
        if route.workspace_id is None:
            return None
        principal: Principal | None = None
        if identity.key:
            recalled = self._access.recall(identity.key, route.workspace_id, now)
            if recalled is None:
                return None
            principal, target, until = recalled
        elif identity.link_key is not None and (known := self._access.recall_target(route.workspace_id, now)):
            target, until = known
        else:
            return None
        decision = decide(
            request,
            route,
            principal=principal,
            target=target,
            scheme=self._scheme,
            by_token=identity.by_token,
            workspace_hosts=self._settings.base_domain is not None,
            link_key=identity.link_key,
            now=time.time() if target.shares else 0.0,
        )
        if decision is not AccessDecision.RELAY and decision is not AccessDecision.RELAY_VISITOR:
            return None
        at = target.address
        if route.port is not None:
            at, port_until = self._access.recall_port(target.id, route.port, now)
            until = min(until, port_until)
        if decision is AccessDecision.RELAY:
            to = self._destinations.workspace(target, route, at)
        else:
            to = self._destinations.shared_port(target, route, at)
        return (to, until) if to is not None else None

    async def recheck(self, identity: Identity, to: Destination, *, is_tunnel: bool) -> Verdict:
        """Check something open again. Raises if the directory does not answer in time."""
        async with asyncio.timeout(DIRECTORY_TIMEOUT):
            return await recheck(self._access, identity, to, is_tunnel=is_tunnel)

    async def admit(self, request: RequestHead, route: Route, identity: Identity) -> Answer | Forward:
        """Answer a request, or say where to forward it.

        Never raises: a failure is answered 503.
        """
        try:
            async with asyncio.timeout(DIRECTORY_TIMEOUT):
                return await self._admit(request, route, identity)
        except Exception as error:  # noqa: BLE001 - any failure of the directory is answered 503
            self._record_failure(error)
            return self._unavailable(request)

    def _record_failure(self, error: Exception) -> None:
        """Log at most once a minute: while the database is away, every request fails here."""
        self._metrics.directory_failures_total += 1
        now = asyncio.get_running_loop().time()
        if now >= self._log_again_at:
            self._log_again_at = now + LOG_INTERVAL
            log.warning("directory did not answer", error=repr(error))

    async def _admit(self, request: RequestHead, route: Route, identity: Identity) -> Answer | Forward:
        principal = await self._principal(identity)
        if route.kind is RouteKind.INTERNAL:
            if not identity.by_token and not may_enter(request, self._scheme):
                return self.foreign_page(request)
            answer = await self._internal.serve(request, route, principal)
            if isinstance(answer, Answer) or principal is None:
                return answer if isinstance(answer, Answer) else unauthorized()
            return Forward(answer.to, answer.path)
        target = None
        known = principal is not None or identity.link_key is not None
        if known and route.workspace_id is not None:
            target = await self._access.target(route.workspace_id)
        decision = decide(
            request,
            route,
            principal=principal,
            target=target,
            scheme=self._scheme,
            by_token=identity.by_token,
            workspace_hosts=self._settings.base_domain is not None,
            link_key=identity.link_key,
            now=time.time(),
        )
        if target is not None and decision is AccessDecision.RELAY_VISITOR:
            return await self._visit(request, route, target)
        if target is not None and decision is AccessDecision.VISITOR_WAITS:
            return self._visitor_waits(request, route, target, signed_in=principal is not None)
        return await self._carry_out(decision, request, route, principal, target)

    async def _carry_out(
        self,
        decision: AccessDecision,
        request: RequestHead,
        route: Route,
        principal: Principal | None,
        target: WorkspaceTarget | None,
    ) -> Answer | Forward:
        if decision is AccessDecision.SIGN_IN:
            return redirect(303, self._sign_in_url(request, route))
        if decision is AccessDecision.UNAUTHORIZED:
            return unauthorized()
        if decision is AccessDecision.FOREIGN_PAGE:
            return self.foreign_page(request)
        if decision is AccessDecision.NOT_FOUND or principal is None or target is None:
            return self._pages.not_found(_context(request)) if request.is_navigation else not_found()
        match decision:
            case AccessDecision.BAD_ORIGIN:
                return self.bad_origin()
            case AccessDecision.MOVE:
                return self._move(request, route, target)
            case AccessDecision.ADD_SLASH:
                return redirect(308, (route.prefix + b"/" + route.path).decode("latin-1"))
            case AccessDecision.ENTER_BASE_PATH:
                return redirect(302, f"/w/{target.id}/" + route.path[1:].decode("latin-1"))
            case AccessDecision.BROKEN:
                return self.broken(request, target)
            case AccessDecision.WAKE:
                return await self._wake(request, route, principal, target)
            case AccessDecision.WAIT:
                return self._pages.waiting(_context(request, route), target)
            case AccessDecision.RELAY:
                at = target.address
                if route.port is not None:
                    at = await self._access.port_address(target.id, route.port)
                    if at is None:
                        return self._port_closed(request, target, route.port, status=404)
                to = self._destinations.workspace(target, route, at)
                if to is not None:
                    return Forward(to, to.path(route))
                if request.is_navigation:  # running, but its address is not known yet
                    return self._pages.waiting(_context(request, route), target)
        return self._asleep(request, target)

    # Visitors -------------------------------------------------------------------------------------

    async def _visit(self, request: RequestHead, route: Route, target: WorkspaceTarget) -> Answer | Forward:
        assert route.port is not None
        at = await self._access.port_address(target.id, route.port)
        to = self._destinations.shared_port(target, route, at)
        if to is None:
            return self._port_closed(request, replace(target, name=""), route.port, status=404)
        return Forward(to, to.path(route))

    def _visitor_waits(
        self, request: RequestHead, route: Route, target: WorkspaceTarget, *, signed_in: bool
    ) -> Answer:
        """Answer while the workspace does not run. The owner who came by the link may sign in, and wake."""
        if request.is_navigation:
            sign_in = None if signed_in else self._sign_in_url(request, route)
            return self._pages.visitor_waits(_context(request), sign_in)
        detail = "The workspace behind this port is not running. Only its owner wakes it."
        return problem(503, "asleep", detail, retry_after=self._settings.retry_after)

    # Waking ---------------------------------------------------------------------------------------

    async def _wake(
        self, request: RequestHead, route: Route, principal: Principal, target: WorkspaceTarget
    ) -> Answer:
        outcome = await self.wake(target.id, principal)
        context = _context(request, route)
        match outcome.result:
            case WakeResult.WAKING:
                return self._pages.waiting(context, target)
            case WakeResult.QUEUED:
                return self._pages.queued(context, target)
            case WakeResult.LIMIT:
                return self._pages.limit(context, target, outcome)
            case WakeResult.ERROR:
                return self._pages.error(context, target, outcome.error)
            case WakeResult.GONE:
                return self._pages.not_found(context)

    async def wake(self, workspace_id: UUID, principal: Principal) -> WakeOutcome:
        """Wake a workspace.

        Single flight per person and workspace; completes even if the client disconnects.
        """
        key = (workspace_id, principal.user_id)
        if not self._wakes.is_running(key):
            self._metrics.wakes_total += 1
        outcome = await self._wakes.run(key, partial(self._directory.wake, workspace_id, principal))
        self._access.workspace_changed(workspace_id)
        return outcome

    # Answers --------------------------------------------------------------------------------------

    async def unreachable(self, request: RequestHead, to: Destination) -> Answer:
        """Answer for an upstream that accepted no connection after all retries.

        Drops the cached address and sends the Observer a hint.
        """
        target = to.target
        if target is None:
            return self._unavailable(request)
        if to.visit_ends_at is not None and to.port is not None:  # strangers drop no cached answer
            return self._port_closed(request, target, to.port, status=502)
        self._access.workspace_changed(target.id)  # the cached address may be stale
        if to.port is not None:  # says nothing about the workspace's main port
            return self._port_closed(request, target, to.port, status=502)
        try:
            async with asyncio.timeout(DIRECTORY_TIMEOUT):
                await self._directory.hint_observer(target.id)
        except Exception as error:  # noqa: BLE001 - only a hint: the Observer polls anyway
            log.warning("observer not hinted", error=repr(error), workspace_id=str(target.id))
        if request.is_navigation and target.starting_up:
            return self._pages.waiting(_context(request, on_workspace_host=not to.policy.prefix), target)
        return self.bad_gateway(request, to)

    def _port_closed(
        self, request: RequestHead, target: WorkspaceTarget, port: int, *, status: int
    ) -> Answer:
        """Answer alike whether the port is free or another process has it: the person must not learn which."""
        if request.is_navigation:
            return self._pages.port_closed(_context(request), target, port, status=status)
        return problem(status, "port_closed", f"Nothing of this workspace listens on port {port}.")

    def bad_gateway(self, request: RequestHead, to: Destination | None) -> Answer:
        """Answer for an upstream that broke before it responded."""
        target = to.target if to is not None else None
        if target is None:
            return self._unavailable(request)
        if request.is_navigation:
            return self._pages.bad_gateway(_context(request), target)
        return problem(502, "unreachable", "The workspace runs but does not answer.", retry_after=1)

    def timed_out(self, *, waiting_for_client: bool) -> Answer:
        """Answer 408 for a slow client, 504 for a slow upstream."""
        if waiting_for_client:
            return refused(408, "slow body")
        return problem(504, "upstream_timeout", "The upstream did not answer in time.")

    def bad_origin(self) -> Answer:
        """Answer a WebSocket whose ``Origin`` is another site."""
        self._metrics.refusals["origin"] += 1
        return problem(403, "bad_origin", "WebSockets are open to this site's own pages only.")

    def foreign_page(self, request: RequestHead) -> Answer:
        """Answer a request that a page of another origin made, other than by a link."""
        self._metrics.refusals["foreign page"] += 1
        if request.is_navigation:
            return self._pages.foreign_page(_context(request))
        detail = "Pages of other sites and of other workspaces may lead here by a link and do nothing else."
        return problem(403, "foreign_page", detail)

    def overloaded(self) -> Answer:
        """Answer a connection over ``max_connections``."""
        return problem(503, "overloaded", "Too many connections.", retry_after=self._settings.retry_after)

    def failed(self) -> Answer:
        """Answer a request whose handling raised: a bug of the proxy."""
        return problem(500, "internal", "The proxy could not handle this request.")

    def broken(self, request: RequestHead, target: WorkspaceTarget) -> Answer:
        """Answer for a workspace in ERROR."""
        if request.is_navigation:
            return self._pages.error(_context(request), target, target.error)
        detail = target.error.message if target.error else "The workspace is in an error state."
        return problem(502, "workspace_error", detail)

    def _move(self, request: RequestHead, route: Route, target: WorkspaceTarget) -> Answer:
        if not request.is_navigation:
            return problem(403, "own_origin", "Workspaces are open to browsers at their own origins only.")
        origin = self._settings.workspace_origin(label_of(target.id, route.port))
        stripped = target.strip_prefix or route.port is not None
        path = route.path if stripped else route.prefix + route.path
        return redirect(302, origin + ("" if path.startswith(b"/") else "/") + path.decode("latin-1"))

    def _asleep(self, request: RequestHead, target: WorkspaceTarget) -> Answer:
        if request.is_navigation:  # in a frame, or a form: neither wakes
            return self._pages.asleep(_context(request), target)
        detail = "The workspace is not running. Open it in a browser to wake it."
        return problem(503, "asleep", detail, retry_after=self._settings.retry_after)

    def _unavailable(self, request: RequestHead) -> Answer:
        if request.is_navigation:
            return self._pages.unavailable(_context(request))
        return problem(503, "unavailable", "CodeHub is not ready.", retry_after=self._settings.retry_after)

    def _sign_in_url(self, request: RequestHead, route: Route) -> str:
        """Return ``/login`` on the dashboard's host; from a workspace host, the URL of the code exchange."""
        here = safe_next(request.target.decode("latin-1"))
        if not route.on_workspace_host:
            return "/login?next=" + quote(here, safe="")
        port = f"&port={route.port}" if route.port else ""
        path = f"/_codehub/signin?workspace={route.workspace_id or ''}{port}&next={quote(here, safe='')}"
        return self._settings.public_url.rstrip("/") + path

    async def _principal(self, identity: Identity) -> Principal | None:
        if identity.credential is None:
            return None
        return await self._access.principal(identity.key, identity.credential)


def _context(
    request: RequestHead, route: Route | None = None, *, on_workspace_host: bool | None = None
) -> PageContext:
    if on_workspace_host is None:
        on_workspace_host = route is not None and route.on_workspace_host
    return PageContext.of(request, on_workspace_host=on_workspace_host)
