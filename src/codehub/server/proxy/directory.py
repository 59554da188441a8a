"""Directory for the proxy: people, workspaces and their addresses.

People and workspaces come from the database, addresses from the runtime. The engine in ``proxy/`` knows sockets
and HTTP only. Nothing here is on its hot path: the proxy caches results for two seconds and drops them when the
live feed reports a change. Concurrent reads are batched.
"""

import asyncio
import socket
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import NamedTuple, Protocol, assert_never
from uuid import UUID

from codehub.domain.port_shares import PortShare, ShareLevel, SharePolicy, link_key
from codehub.domain.states import ObservedStatus
from codehub.domain.waking import WakeOutcome, error_note, is_paused, is_starting_up, phase_of
from codehub.kit.batching import Batched
from codehub.kit.tasks import cancel_and_wait
from codehub.proxy.interfaces import (
    Credential,
    CredentialKind,
    DirectoryListener,
    Principal,
    SharedPort,
    WorkspaceTarget,
)
from codehub.proxy.settings import SocketAddress, TcpAddress, UnixAddress
from codehub.runtimes import base as runtimes
from codehub.server.proxy.activity import StandbyTtls
from codehub.server.proxy.port_tunnels import PortTunnels
from codehub.server.proxy.workspace_cookies import SignedSignIn
from codehub.services.identity import Identities
from codehub.services.waking import WakeService
from codehub.signals.hints import Hints, HintTarget
from codehub.signals.live import Change, LiveFeed, Notice, PersonChanged, Resync, follow
from codehub.store.db.session import Sessions
from codehub.store.workspaces import port_shares
from codehub.store.workspaces.queries import find_many
from codehub.store.workspaces.records import WorkspaceRecord


class Addresses(Protocol):
    """A runtime, as the proxy uses it."""

    async def address(self, workspace_id: UUID) -> runtimes.Endpoint | None: ...

    async def port_address(self, workspace_id: UUID, port: int) -> runtimes.Address | None:
        """Where to connect for a port; None unless it is this workspace's own."""

    async def listener(self, workspace_id: UUID, address: runtimes.Address) -> Hashable | None:
        """Which socket accepts connections there; None unless it is this workspace's own."""


class _Row(NamedTuple):
    record: WorkspaceRecord
    shares: dict[int, SharedPort]


class ProxyDirectory:
    """Resolves credentials and workspaces for the proxy; waking is ``services/waking``."""

    def __init__(
        self,
        *,
        waking: WakeService,
        reading: Sessions,
        identities: Identities,
        addresses: Addresses,
        uses_base_path: Callable[[str], bool],
        without_tab_script: Collection[str] = (),
        live: LiveFeed,
        hints: Hints,
        sign_in: SignedSignIn,
        share_policy: SharePolicy | None = None,
        link_secret: bytes = b"",
        tunnels: PortTunnels | None = None,
    ) -> None:
        """``tunnels`` None: workspaces share the machine's network, so there is no other loopback to reach."""
        self._waking = waking
        self._reading = reading
        self._rows: Batched[UUID, _Row] = Batched(self._load)
        self._identities = identities
        self._addresses = addresses
        self._uses_base_path = uses_base_path
        self._without_tab_script = without_tab_script
        self._live = live
        self._hints = hints
        self._sign_in = sign_in
        self._share_policy = share_policy or SharePolicy()
        self._link_secret = link_secret
        self._tunnels = tunnels
        self._feeds: list[asyncio.Task[None]] = []
        self.ttls = StandbyTtls(self._record)

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
        row = await self._rows.get(workspace_id)
        if row is None or row.record.view.deleted_at is not None:
            return None
        record = row.record
        self.ttls.note(record.view, current=invalidations == self.ttls.invalidations)
        endpoint = None
        if record.view.observed_status is ObservedStatus.RUNNING:
            endpoint = await self._addresses.address(workspace_id)
        return self._target(record, endpoint, row.shares)

    async def port_address(self, workspace_id: UUID, port: int) -> SocketAddress | None:
        return _address_of(await self._addresses.port_address(workspace_id, port))

    async def listener(self, workspace_id: UUID, address: TcpAddress) -> Hashable | None:
        return await self._addresses.listener(workspace_id, runtimes.Address(address.host, address.port))

    async def tunnel(self, workspace_id: UUID, port: int) -> socket.socket | None:
        return await self._tunnels.open(workspace_id, port) if self._tunnels is not None else None

    async def wake(self, workspace_id: UUID, principal: Principal) -> WakeOutcome:
        return await self._waking.wake(workspace_id, principal.user_id)

    async def hint_observer(self, workspace_id: UUID) -> None:
        await self._hints.publish(HintTarget.OBSERVER, [workspace_id])

    def subscribe(self, listener: DirectoryListener) -> None:
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
        if self._tunnels is not None:
            await self._tunnels.close()

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

    async def _record(self, workspace_id: UUID) -> WorkspaceRecord | None:
        row = await self._rows.get(workspace_id)
        return row.record if row is not None else None

    async def _load(self, ids: Sequence[UUID]) -> Mapping[UUID, "_Row"]:
        async with self._reading() as session:
            rows = {record.view.id: _Row(record, {}) for record in await find_many(session, ids)}
            if (
                self._share_policy.highest is not ShareLevel.PRIVATE
            ):  # else nobody is let in, whatever is shared
                for workspace_id, share in await port_shares.list_open(session, ids):
                    if share.level.rank <= self._share_policy.ceiling.rank and workspace_id in rows:
                        rows[workspace_id].shares[share.port] = self._shared_port(workspace_id, share)
            return rows

    def _shared_port(self, workspace_id: UUID, share: PortShare) -> SharedPort:
        return SharedPort(
            share.level,
            share.expires_at.timestamp() if share.expires_at is not None else float("inf"),
            link_key(self._link_secret, workspace_id, share),
        )

    def _target(
        self, record: WorkspaceRecord, endpoint: runtimes.Endpoint | None, shares: Mapping[int, SharedPort]
    ) -> WorkspaceTarget:
        view = record.view
        return WorkspaceTarget(
            id=view.id,
            owner_id=view.owner_id,
            name=record.name,
            phase=phase_of(view),
            status=record.status,
            address=_address_of(endpoint),
            strip_prefix=not self._uses_base_path(view.image_ref),
            starting_up=is_starting_up(view),
            error=error_note(view) if view.in_error else None,
            paused=is_paused(view),
            version=view.version,
            tab_script=view.image_ref not in self._without_tab_script,
            shares=shares,
        )


def _address_of(endpoint: runtimes.Endpoint | None) -> SocketAddress | None:
    match endpoint:
        case None:
            return None
        case runtimes.Address(host, port):
            return TcpAddress(host, port)
        case runtimes.UnixSocket(path):
            return UnixAddress(path, follow_links=False)
        case _:
            assert_never(endpoint)
