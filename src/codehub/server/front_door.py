"""What the proxy is given: people and workspaces from the database, activity to Redis, sign-in by signature.

The engine in ``proxy/`` knows sockets and HTTP only. Everything here is off its hot path: answers are
cached for two seconds over there and thrown away when the live feed reports a change.
"""

import asyncio
import base64
import hmac
import json
import secrets
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from datetime import timedelta
from typing import Protocol
from uuid import UUID

import structlog
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

from codehub.domain.causes import Cause, CauseCode
from codehub.domain.states import DesiredState, ObservedStatus, Operation
from codehub.domain.status import Status
from codehub.domain.workspace import WorkspaceView
from codehub.kit.tasks import cancel_and_wait
from codehub.proxy.ports import (
    ChangeListener,
    Credential,
    CredentialKind,
    ErrorNote,
    Phase,
    Principal,
    RunningWorkspace,
    WakeOutcome,
    WakeResult,
    WorkspaceTarget,
)
from codehub.runtimes.base import Address
from codehub.services import access, workspaces
from codehub.services.errors import LimitReached, NotFound, WorkspaceDeleted
from codehub.services.identity import Identities
from codehub.services.workspaces import RunningLimits
from codehub.signals.activity import LEASE_SECONDS, ActivityKind, ActivityLog
from codehub.signals.activity_news import ActivityNews
from codehub.signals.connection import RedisLink, RedisUnavailable
from codehub.signals.hints import Hints, HintTarget
from codehub.signals.live import Change, FeedClosed, FellBehind, LiveFeed, PersonChanged, Resync
from codehub.signals.outage import Outage
from codehub.store.records import WorkspaceRecord
from codehub.store.workspaces import find

log = structlog.get_logger(__name__)

Sessions = async_sessionmaker[AsyncSession]

CODE_SECONDS = 30
STARTING_UP = timedelta(seconds=60)
MANY_TTLS = 10_000
DEFAULT_TTL = 300


class Addresses(Protocol):
    """The part of a runtime the proxy needs."""

    async def address(self, workspace_id: UUID) -> Address | None: ...

    async def port_address(self, workspace_id: UUID, port: int) -> Address | None:
        """None unless the port is this workspace's own."""


class StandbyTtls:
    """How long each workspace stays awake unused, as the idle timers need it.

    The last connection may end long after the last request, and the person may have changed their mind in
    between: what a change was reported for is read again before it is used.
    """

    def __init__(self, reading: Sessions) -> None:
        self._reading = reading
        self._known: dict[UUID, int] = {}
        self._owners: dict[UUID, UUID] = {}
        self._sure: set[UUID] = set()
        self._doubts = 0  # grows with each: what was read before one proves nothing after it

    async def get(self, workspace_id: UUID) -> float:
        if workspace_id not in self._sure:
            doubts = self._doubts
            with suppress(SQLAlchemyError, OSError, TimeoutError):  # then what was known last
                async with self._reading() as session:
                    record = await find(session, workspace_id)
                if record is not None:
                    self.note(record.view, sure=doubts == self._doubts)
        return self.recall(workspace_id)

    def recall(self, workspace_id: UUID) -> float:
        # TTL 0 never sleeps; the timer is only shown.
        return float(self._known.get(workspace_id) or DEFAULT_TTL)

    def owner(self, workspace_id: UUID) -> UUID | None:
        return self._owners.get(workspace_id)

    def note(self, view: WorkspaceView, *, sure: bool = False) -> None:
        if len(self._known) > MANY_TTLS:
            self._known.clear()
            self._owners.clear()
            self._sure.clear()
        self._known[view.id] = view.standby_ttl_seconds
        self._owners[view.id] = view.owner_id
        if sure:
            self._sure.add(view.id)

    def doubt(self, workspace_id: UUID | None = None) -> None:
        """Something changed about it; None: about anything."""
        self._doubts += 1
        if workspace_id is None:
            self._sure.clear()
        else:
            self._sure.discard(workspace_id)


class Directory:
    """Who may open what, and where it is."""

    def __init__(
        self,
        *,
        sessions: Sessions,
        reading: Sessions,
        identities: Identities,
        addresses: Addresses,
        uses_base_path: Callable[[str], bool],
        live: LiveFeed,
        hints: Hints,
        limits: RunningLimits,
        sign_in: "SignedSignIn",
    ) -> None:
        self._sessions = sessions
        self._reading = reading
        self._identities = identities
        self._addresses = addresses
        self._uses_base_path = uses_base_path
        self._live = live
        self._hints = hints
        self._limits = limits
        self._sign_in = sign_in
        self._feeds: list[asyncio.Task[None]] = []
        self.ttls = StandbyTtls(reading)

    async def resolve(self, credential: Credential) -> Principal | None:
        if credential.kind is CredentialKind.WORKSPACE:
            return await self._of_workspace_cookie(credential)
        if credential.kind is CredentialKind.TOKEN:
            found = await self._identities.of_token(credential.secret)
        else:
            found = await self._identities.of_session(credential.secret)
        if found is None:
            return None
        return Principal(found.user.id, found.user.role, session_id=found.session_id)

    async def workspace(self, workspace_id: UUID) -> WorkspaceTarget | None:
        async with self._reading() as session:
            record = await find(session, workspace_id)
        if record is None or record.view.deleted_at is not None:
            return None
        self.ttls.note(record.view)
        address = None
        if record.view.observed_status is ObservedStatus.RUNNING:
            address = await self._addresses.address(workspace_id)
        return self._target(record, address)

    async def port_address(self, workspace_id: UUID, port: int) -> tuple[str, int] | None:
        address = await self._addresses.port_address(workspace_id, port)
        return (address.host, address.port) if address is not None else None

    async def wake(self, workspace_id: UUID, principal: Principal) -> WakeOutcome:
        known = await self._identities.of_user(principal.user_id, fresh=True)
        if known is None:
            return WakeOutcome(WakeResult.GONE)
        try:
            async with self._sessions() as session, session.begin():
                record = await workspaces.start(
                    session,
                    workspace_id,
                    actor=known.actor,
                    limits=self._limits,
                    cause=Cause(CauseCode.LINK_OPENED),
                )
        except LimitReached as limit:
            return WakeOutcome(
                WakeResult.LIMIT,
                running=[RunningWorkspace(each.view.id, each.name) for each in limit.running],
                allowed=limit.usage.allowed,
                is_global=limit.kind.value == "limit_global",
            )
        except (NotFound, WorkspaceDeleted):
            return WakeOutcome(WakeResult.GONE)
        if record.view.in_error:
            return WakeOutcome(WakeResult.ERROR, error=_error_note(record.view))
        return WakeOutcome(WakeResult.WAKING)

    async def hint_observer(self, workspace_id: UUID) -> None:
        await self._hints.publish(HintTarget.OBSERVER, [workspace_id])

    def subscribe(self, listener: ChangeListener) -> None:
        self._feeds = [
            asyncio.create_task(self._follow(listener), name="proxy-changes"),
            asyncio.create_task(self._follow_people(listener), name="proxy-people"),
        ]

    async def close(self) -> None:
        await cancel_and_wait(self._feeds)

    async def _follow(self, listener: ChangeListener) -> None:
        while True:
            try:
                with self._live.subscribe_all() as changes:
                    async for notice in changes:
                        if isinstance(notice, Change):
                            self.ttls.doubt(notice.id)
                            listener.workspace_changed(notice.id)
                        elif isinstance(notice, Resync):
                            self.ttls.doubt()
                            listener.everything_changed()
            except FellBehind:
                self.ttls.doubt()
                listener.everything_changed()
            except FeedClosed:
                return

    async def _follow_people(self, listener: ChangeListener) -> None:
        """Whoever was signed out or disabled loses open sockets now; without the hint, in the next round."""
        while True:
            try:
                with self._live.subscribe_people() as people:
                    async for notice in people:
                        if isinstance(notice, PersonChanged):
                            self._identities.forget(notice.user_id)
                            listener.user_changed(notice.user_id)
            except FellBehind:
                listener.everything_changed()
            except FeedClosed:
                return

    async def _of_workspace_cookie(self, credential: Credential) -> Principal | None:
        """The cookie of a workspace's own origin lives as long as the session it was made from."""
        assert credential.workspace_id is not None
        claim = self._sign_in.read_cookie(credential.secret, credential.workspace_id)
        if claim is None:
            return None
        user_id, session_id = claim
        known = await self._identities.of_user(user_id)
        if known is None:
            return None
        if session_id is not None and await self._identities.session_has_ended(session_id):
            return None
        return Principal(known.user.id, known.user.role, session_id=session_id)

    def _target(self, record: WorkspaceRecord, address: Address | None) -> WorkspaceTarget:
        view = record.view
        return WorkspaceTarget(
            id=view.id,
            owner_id=view.owner_id,
            name=record.name,
            phase=_phase(view),
            status=record.status,
            address=(address.host, address.port) if address is not None else None,
            strip_prefix=not self._uses_base_path(view.image_ref),
            starting_up=view.operation is Operation.STARTING or _just_came_up(view),
            error=_error_note(view) if view.in_error else None,
            version=view.version,
        )


def _phase(view: WorkspaceView) -> Phase:
    if view.in_error:
        return Phase.ERROR
    if view.desired_state is not DesiredState.RUNNING:
        # Still running, but on its way to sleep: a person who opens it now wants it awake.
        return Phase.ASLEEP
    return Phase.RUNNING if view.observed_status is ObservedStatus.RUNNING else Phase.WAKING


def _just_came_up(view: WorkspaceView) -> bool:
    if view.home.ran_at is None or view.observed_at is None:
        return view.observed_status is ObservedStatus.RUNNING
    return view.observed_at - view.home.ran_at < STARTING_UP


def _error_note(view: WorkspaceView) -> ErrorNote:
    if view.error_info is None:
        return ErrorNote(Status.ERROR.value, "")
    return ErrorNote(view.error_info.reason.value, view.error_info.message)


class SignedSignIn:
    """One-time codes and workspace cookies, signed with the installation's secret: nothing is stored.

    That a code works once is kept in Redis, and in this process while Redis is away.
    """

    def __init__(self, secret: bytes, redis: RedisLink) -> None:
        self._secret = secret
        self._redis = redis
        self._outage = Outage("sign-in codes")
        self._used: dict[str, float] = {}

    async def issue_code(self, principal: Principal, workspace_id: UUID) -> str:
        claim = {
            "u": str(principal.user_id),
            "s": str(principal.session_id) if principal.session_id else None,
            "w": str(workspace_id),
            "e": int(time.time()) + CODE_SECONDS,
            "n": secrets.token_hex(16),
        }
        return self._seal("code", json.dumps(claim))

    async def redeem_code(self, code: str, workspace_id: UUID) -> str | None:
        claim = self._open("code", code)
        if claim is None:
            return None
        content = json.loads(claim)
        if content["w"] != str(workspace_id) or content["e"] < time.time():
            return None
        if not await self._first_use(content["n"]):
            return None
        return self._seal("cookie", json.dumps({key: content[key] for key in ("u", "s", "w")}))

    def read_cookie(self, value: str, workspace_id: UUID) -> tuple[UUID, UUID | None] | None:
        """Whose it is, and the session it hangs on. None: not ours, or another workspace's."""
        claim = self._open("cookie", value)
        if claim is None:
            return None
        content = json.loads(claim)
        if content["w"] != str(workspace_id):
            return None
        return UUID(content["u"]), UUID(content["s"]) if content["s"] else None

    async def _first_use(self, nonce: str) -> bool:
        now = time.monotonic()
        self._used = {each: at for each, at in self._used.items() if now - at < 2 * CODE_SECONDS}
        if nonce in self._used:
            return False
        self._used[nonce] = now
        try:
            async with self._redis.bounded(self._outage) as client:
                taken = await client.set(f"codehub:code:{nonce}", b"1", nx=True, ex=2 * CODE_SECONDS)
        except RedisUnavailable:
            return True
        return bool(taken)

    def _seal(self, purpose: str, claim: str) -> str:
        body = base64.urlsafe_b64encode(claim.encode()).decode().rstrip("=")
        return f"{body}.{self._signature(purpose, body)}"

    def _open(self, purpose: str, sealed: str) -> str | None:
        body, _, signature = sealed.partition(".")
        expected = self._signature(purpose, body)
        if not hmac.compare_digest(signature.encode("latin-1", "replace"), expected.encode()):
            return None
        return base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)).decode()

    def _signature(self, purpose: str, body: str) -> str:
        return hmac.digest(self._secret, f"{purpose}:{body}".encode(), "sha256").hex()


class ProxyActivity:
    """The lease set and idle timer, with each workspace's own TTL; PostgreSQL while Redis is away.

    A lease that is new, or over, is news for whoever looks at the workspace; one that is renewed is not.
    """

    def __init__(
        self, activity: ActivityLog, sessions: Sessions, ttls: StandbyTtls, news: ActivityNews
    ) -> None:
        self._activity = activity
        self._sessions = sessions
        self._ttls = ttls
        self._news = news
        self._held: set[tuple[UUID, str]] = set()

    async def lease(self, workspace_id: UUID, conn_id: str) -> None:
        await self._activity.take(workspace_id, conn_id, ttl_seconds=await self._ttls.get(workspace_id))
        if (workspace_id, conn_id) not in self._held:
            self._held.add((workspace_id, conn_id))
            self._tell(workspace_id)

    async def release(self, workspace_id: UUID, conn_id: str) -> None:
        await self._activity.release(workspace_id, conn_id, ttl_seconds=await self._ttls.get(workspace_id))
        self._held.discard((workspace_id, conn_id))
        self._tell(workspace_id)

    async def touch(self, workspace_id: UUID) -> None:
        await self._activity.touch(workspace_id, await self._ttls.get(workspace_id), ActivityKind.HTTP)

    async def mark_active(self, workspace_ids: Collection[UUID]) -> None:
        longest = max((self._ttls.recall(each) for each in workspace_ids), default=0)
        async with self._sessions() as session, session.begin():
            await access.say_in_use(session, workspace_ids, for_=timedelta(seconds=longest + LEASE_SECONDS))

    def _tell(self, workspace_id: UUID) -> None:
        owner_id = self._ttls.owner(workspace_id)
        if owner_id is not None:  # never read: then nobody was let in either
            self._news.changed(workspace_id, owner_id)
