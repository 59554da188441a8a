"""Ports of the proxy, in memory: what a test says is who may do what, and what happened is written down."""

import asyncio
import socket
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Hashable
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

from codehub.domain.states import Role
from codehub.domain.waking import Phase, WakeOutcome, WakeResult
from codehub.proxy.interfaces import (
    Credential,
    CredentialKind,
    DirectoryListener,
    Interfaces,
    Principal,
    Use,
    WorkspaceTarget,
)
from codehub.proxy.settings import SocketAddress, TcpAddress

SESSION = "s3ss10n"
TOKEN = "chp_t0k3n"
ADMIN_SESSION = "adm1n"
STRANGER_SESSION = "str4ng3r"


class FakeDirectory:
    def __init__(self) -> None:
        self.owner = Principal(uuid4(), Role.USER)
        self.admin = Principal(uuid4(), Role.ADMIN)
        self.stranger = Principal(uuid4(), Role.USER)
        self.credentials: dict[tuple[CredentialKind, str], Principal] = {
            (CredentialKind.SESSION, SESSION): self.owner,
            (CredentialKind.TOKEN, TOKEN): self.owner,
            (CredentialKind.SESSION, ADMIN_SESSION): self.admin,
            (CredentialKind.SESSION, STRANGER_SESSION): self.stranger,
        }
        self.workspace_cookies: dict[tuple[UUID, str], Principal] = {}
        self.targets: dict[UUID, WorkspaceTarget] = {}
        self.outcome = WakeOutcome(WakeResult.WAKING)
        self.wakes: list[tuple[UUID, UUID]] = []
        self.hints: list[UUID] = []
        self.calls: Counter[str] = Counter()
        self.listeners: list[DirectoryListener] = []
        self.ports: set[tuple[UUID, int]] = set()  # those that workspaces listen on themselves
        # Which socket listens at an address, as the runtime would say: the same one at each, all the time.
        self.listening: Callable[[UUID, TcpAddress], Hashable | None] = lambda _, address: address
        self.tunnels: Callable[[int], Awaitable[socket.socket | None]] = _no_tunnel
        self.gate: asyncio.Event | None = None  # holds every lookup while it is set and clear
        self.broken = False

    def add(self, **fields: object) -> WorkspaceTarget:
        base = WorkspaceTarget(
            id=uuid4(), owner_id=self.owner.user_id, name="alpha", phase=Phase.RUNNING, status="running"
        )
        target = replace(base, **_typed(fields))
        self.targets[target.id] = target
        return target

    def change(self, workspace_id: UUID, **fields: object) -> None:
        self.targets[workspace_id] = replace(self.targets[workspace_id], **_typed(fields))
        for listener in self.listeners:
            listener.workspace_changed(workspace_id)

    async def resolve(self, credential: Credential) -> Principal | None:
        self.calls["resolve"] += 1
        await self._pass()
        if credential.kind is CredentialKind.WORKSPACE:
            assert credential.workspace_id is not None
            return self.workspace_cookies.get((credential.workspace_id, credential.secret))
        return self.credentials.get((credential.kind, credential.secret))

    async def workspace(self, workspace_id: UUID) -> WorkspaceTarget | None:
        self.calls["workspace"] += 1
        answer = self.targets.get(workspace_id)
        await self._pass()
        return answer

    async def port_address(self, workspace_id: UUID, port: int) -> SocketAddress | None:
        self.calls["port_address"] += 1
        await self._pass()
        return TcpAddress("127.0.0.1", port) if (workspace_id, port) in self.ports else None

    async def listener(self, workspace_id: UUID, address: TcpAddress) -> Hashable | None:
        return self.listening(workspace_id, address)

    async def tunnel(self, workspace_id: UUID, port: int) -> socket.socket | None:
        self.calls["tunnel"] += 1
        return await self.tunnels(port)

    async def wake(self, workspace_id: UUID, principal: Principal) -> WakeOutcome:
        self.wakes.append((workspace_id, principal.user_id))
        return self.outcome

    async def hint_observer(self, workspace_id: UUID) -> None:
        self.hints.append(workspace_id)

    def subscribe(self, listener: DirectoryListener) -> None:
        self.listeners.append(listener)

    async def _pass(self) -> None:
        if self.broken:
            raise ConnectionError("the database is away")
        if self.gate is not None:
            await self.gate.wait()


async def _no_tunnel(_: int) -> socket.socket | None:
    return None


def _typed(fields: dict[str, Any]) -> dict[str, Any]:
    """A pair of host and port is a TCP address."""
    address = fields.get("address")
    return fields | {"address": TcpAddress(*address)} if isinstance(address, tuple) else fields


class FakeSignIn:
    def __init__(self, directory: FakeDirectory) -> None:
        self._directory = directory
        self.codes: dict[str, tuple[Principal, UUID]] = {}

    async def issue_code(self, principal: Principal, workspace_id: UUID) -> str:
        code = uuid4().hex
        self.codes[code] = (principal, workspace_id)
        return code

    async def redeem_code(self, code: str, workspace_id: UUID) -> str | None:
        principal, issued_for = self.codes.pop(code, (None, None))
        if principal is None or issued_for != workspace_id:
            return None
        secret = uuid4().hex
        self._directory.workspace_cookies[workspace_id, secret] = principal
        return secret


class FakeActivity:
    def __init__(self) -> None:
        self.leases: set[tuple[UUID, str]] = set()
        self.taken: list[tuple[UUID, str]] = []
        self.uses: list[Use] = []  # of all that were taken or renewed
        self.touches: Counter[UUID] = Counter()
        self.marked: set[UUID] = set()
        self.broken = False

    async def lease(
        self, workspace_id: UUID, conn_id: str, use: Use, *, input_age: float | None = None
    ) -> None:
        self._check()
        self.uses.append(use)
        self.taken.append((workspace_id, conn_id))
        self.leases.add((workspace_id, conn_id))

    async def release(
        self, workspace_id: UUID, conn_id: str, use: Use, *, input_age: float | None = None
    ) -> None:
        self._check()
        self.leases.discard((workspace_id, conn_id))

    async def touch(self, workspace_id: UUID, *, input_age: float | None = None) -> None:
        self._check()
        self.touches[workspace_id] += 1

    async def mark_active(self, workspace_ids: Collection[UUID]) -> None:
        self.marked |= set(workspace_ids)

    def _check(self) -> None:
        if self.broken:
            raise ConnectionError("redis is away")


def make_ports() -> tuple[Interfaces, FakeDirectory, FakeSignIn, FakeActivity]:
    directory = FakeDirectory()
    sign_in, activity = FakeSignIn(directory), FakeActivity()
    return Interfaces(directory, sign_in, activity), directory, sign_in, activity
