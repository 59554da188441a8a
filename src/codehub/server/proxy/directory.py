"""Directory for the proxy: people, workspaces and their addresses.

People and workspaces come from the database, addresses from the runtime. The engine in ``proxy/`` knows sockets
and HTTP only. Nothing here is on its hot path: the proxy caches results for two seconds and drops them when the
live feed reports a change. Concurrent reads are batched.
"""

import asyncio
from collections.abc import Callable, Hashable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Protocol, assert_never
from uuid import UUID

from codehub.domain.causes import Cause, CauseCode
from codehub.domain.states import DesiredState, ObservedStatus, Operation
from codehub.domain.status import Status
from codehub.domain.workspace import WorkspaceView
from codehub.kit.batching import Batched
from codehub.kit.tasks import cancel_and_wait
from codehub.proxy.interfaces import (
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
from codehub.proxy.settings import Address, TcpAddress, UnixAddress
from codehub.runtimes import base as runtimes
from codehub.server.proxy.activity import StandbyTtls
from codehub.server.proxy.workspace_cookies import SignedSignIn
from codehub.services import workspaces
from codehub.services.errors import LimitReached, NotFound, WorkspaceDeleted
from codehub.services.identity import Identities
from codehub.services.intent_batcher import IntentBatcher
from codehub.services.workspaces import RunningLimits
from codehub.signals.hints import Hints, HintTarget
from codehub.signals.live import Change, LiveFeed, Notice, PersonChanged, Resync, follow
from codehub.store.db.session import Sessions
from codehub.store.workspaces.queries import find_many
from codehub.store.workspaces.records import WorkspaceRecord

STARTING_UP = timedelta(seconds=60)


class Addresses(Protocol):
    """A runtime, as the proxy uses it."""

    async def address(self, workspace_id: UUID) -> runtimes.Endpoint | None: ...

    async def port_address(self, workspace_id: UUID, port: int) -> runtimes.Address | None:
        """Where to connect for a port; None unless it is this workspace's own."""

    async def listener(self, workspace_id: UUID, address: runtimes.Address) -> Hashable | None:
        """Which socket accepts connections there; None unless it is this workspace's own."""


class Directory:
    """Resolves credentials and workspaces for the proxy, and wakes workspaces."""

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
        sign_in: SignedSignIn,
    ) -> None:
        self._reading = reading
        self._records: Batched[UUID, WorkspaceRecord] = Batched(self._load)
        self._identities = identities
        self._addresses = addresses
        self._uses_base_path = uses_base_path
        self._live = live
        self._hints = hints
        self._limits = limits
        self._sign_in = sign_in
        self._intent_batcher = IntentBatcher(sessions)
        self._feeds: list[asyncio.Task[None]] = []
        self.ttls = StandbyTtls(self._records)

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
        invalidations = self.ttls.invalidations
        record = await self._records.get(workspace_id)
        if record is None or record.view.deleted_at is not None:
            return None
        self.ttls.note(record.view, current=invalidations == self.ttls.invalidations)
        endpoint = None
        if record.view.observed_status is ObservedStatus.RUNNING:
            endpoint = await self._addresses.address(workspace_id)
        return self._target(record, endpoint)

    async def port_address(self, workspace_id: UUID, port: int) -> Address | None:
        return _address_of(await self._addresses.port_address(workspace_id, port))

    async def listener(self, workspace_id: UUID, address: TcpAddress) -> Hashable | None:
        return await self._addresses.listener(workspace_id, runtimes.Address(address.host, address.port))

    async def wake(self, workspace_id: UUID, principal: Principal) -> WakeOutcome:
        known = await self._identities.of_user(principal.user_id, fresh=True)
        if known is None:
            return WakeOutcome(WakeResult.GONE)
        try:
            record = await self._intent_batcher.submit(
                partial(
                    workspaces.start,
                    workspace_id=workspace_id,
                    actor=known.actor,
                    limits=self._limits,
                    cause=Cause(CauseCode.LINK_OPENED),
                ),
                row=workspace_id,
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
        """Forward changes of workspaces and people to the proxy.

        A person who was signed out or disabled loses open sockets now; if the event is lost, at the next sweep.
        """

        def on_change(notice: Notice) -> None:
            if isinstance(notice, Change):
                self.ttls.invalidate(notice.id)
                listener.workspace_changed(notice.id)
            elif isinstance(notice, Resync):
                missed_changes()

        def missed_changes() -> None:
            self.ttls.invalidate()
            listener.everything_changed()

        def on_person(notice: Notice) -> None:
            if isinstance(notice, PersonChanged):
                self._identities.forget(notice.user_id)
                listener.user_changed(notice.user_id)

        changes = follow(self._live.subscribe_all, on_change, on_gap=missed_changes)
        people = follow(self._live.subscribe_people, on_person, on_gap=listener.everything_changed)
        self._feeds = [
            asyncio.create_task(changes, name="proxy-changes"),
            asyncio.create_task(people, name="proxy-people"),
        ]

    async def close(self) -> None:
        await cancel_and_wait(self._feeds)

    async def _of_workspace_cookie(self, credential: Credential) -> Principal | None:
        """The cookie of a workspace's own origin is valid as long as the session it was made from."""
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

    async def _load(self, ids: Sequence[UUID]) -> Mapping[UUID, WorkspaceRecord]:
        async with self._reading() as session:
            return {record.view.id: record for record in await find_many(session, ids)}

    def _target(self, record: WorkspaceRecord, endpoint: runtimes.Endpoint | None) -> WorkspaceTarget:
        view = record.view
        return WorkspaceTarget(
            id=view.id,
            owner_id=view.owner_id,
            name=record.name,
            phase=_phase(view),
            status=record.status,
            address=_address_of(endpoint),
            strip_prefix=not self._uses_base_path(view.image_ref),
            starting_up=view.operation is Operation.STARTING or _just_came_up(view),
            error=_error_note(view) if view.in_error else None,
            version=view.version,
        )


def _address_of(endpoint: runtimes.Endpoint | None) -> Address | None:
    match endpoint:
        case None:
            return None
        case runtimes.Address(host, port):
            return TcpAddress(host, port)
        case runtimes.UnixSocket(path):
            return UnixAddress(path, follow_links=False)
        case _:
            assert_never(endpoint)


def _phase(view: WorkspaceView) -> Phase:
    if view.in_error:
        return Phase.ERROR
    if view.desired_state is not DesiredState.RUNNING:
        # It may still run, but is being stopped: a person who opens it now wants it running.
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
