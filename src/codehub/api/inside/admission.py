"""Admit a request into a workspace: it runs, or is woken because the request says so, and has a place.

The lease keeps it awake meanwhile, as an open page does. The request ends with the rights of its person.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from functools import partial
from uuid import UUID, uuid4

from codehub.api.dependencies import InsideAccess, Leases
from codehub.api.problems import Refused
from codehub.api.state import AppState
from codehub.domain.waking import Phase, error_note, phase_of
from codehub.kit.clock import monotonic
from codehub.kit.tasks import cancel_and_wait
from codehub.services import workspaces as service
from codehub.services.errors import WorkspaceDeleted
from codehub.services.identity import Principal
from codehub.signals.connection import RedisUnavailable
from codehub.store.workspaces.records import WorkspaceRecord

MAX_AT_ONCE = 16
"""Requests and terminals of one workspace at a time, in one replica: each is a process there."""

WAKE_SECONDS = 7.0
RENEWAL_SECONDS = 30.0
_NOT_AVAILABLE = "This is not available here. On the server, codehub doctor says why (ssh)."

_under_way: Counter[UUID] = Counter()


@contextlib.asynccontextmanager
async def admitted(
    workspace_id: UUID, caller: Principal, state: AppState, *, wake: bool, is_use: bool = True
) -> AsyncIterator[InsideAccess]:
    """Hold a place and a lease on a workspace that runs. Raises why not.

    ``is_use`` False: no lease, so that a page which looks now and then keeps nothing awake.
    """
    record = service.visible(await state.workspaces.get(workspace_id), caller.actor)
    access = state.deps.inside
    if access is None:
        raise Refused("unavailable", _NOT_AVAILABLE)
    record = await _running(record, caller, state, wake=wake)
    lease = _leased(access.leases, record) if is_use else contextlib.nullcontext()
    with place_in(record):
        async with lease, _ends_with_rights(caller, state):
            yield access


@contextlib.contextmanager
def place_in(record: WorkspaceRecord) -> Iterator[None]:
    """Hold one of the workspace's places. Raises if all are taken."""
    workspace_id = record.view.id
    if _under_way[workspace_id] >= MAX_AT_ONCE:
        raise Refused(
            "busy", f"{record.name} has {MAX_AT_ONCE} commands and transfers under way. Try again later."
        )
    _under_way[workspace_id] += 1
    try:
        yield
    finally:
        _under_way[workspace_id] -= 1
        if not _under_way[workspace_id]:
            del _under_way[workspace_id]


async def _running(
    record: WorkspaceRecord, caller: Principal, state: AppState, *, wake: bool
) -> WorkspaceRecord:
    view = record.view
    if view.deleted_at is not None:
        raise WorkspaceDeleted(view.id)
    phase = phase_of(view)
    if phase is Phase.ASLEEP and wake:
        start = partial(service.start, workspace_id=view.id, actor=caller.actor, limits=state.settings.limits)
        record = await state.intent_batcher.submit(start, row=view.id)
        phase = Phase.WAKING
    deadline = monotonic() + WAKE_SECONDS
    while wake and phase is Phase.WAKING and monotonic() < deadline:
        await asyncio.sleep(0.1)
        found = await state.workspaces.get(view.id)
        if found is None:
            raise WorkspaceDeleted(view.id)
        record, phase = found, phase_of(found.view)
    match phase:
        case Phase.RUNNING:
            return record
        case Phase.ERROR:
            raise Refused("not_running", f"{record.name} is in error. {error_note(record.view).message}")
        case Phase.WAKING:
            raise Refused("waking", f"{record.name} is starting. Try again in a moment.")
        case Phase.ASLEEP:
            raise Refused("not_running", f"{record.name} is asleep. With wake=true it is started.")


@contextlib.asynccontextmanager
async def _leased(leases: Leases, record: WorkspaceRecord) -> AsyncIterator[None]:
    lease_id = f"request-{uuid4().hex[:12]}"
    ttl_seconds = record.view.standby_ttl_seconds

    async def take() -> None:
        with contextlib.suppress(RedisUnavailable):  # while it is away nothing is put to sleep
            await leases.take(record.view.id, lease_id, ttl_seconds=ttl_seconds)

    async def renew() -> None:
        while True:
            await asyncio.sleep(RENEWAL_SECONDS)
            await take()

    await take()  # not in the task: a short request would end it in the middle of this
    renewing = asyncio.create_task(renew())
    try:
        yield
    finally:
        await cancel_and_wait([renewing])
        with contextlib.suppress(RedisUnavailable):
            await leases.release(record.view.id, lease_id, ttl_seconds=ttl_seconds)


@contextlib.asynccontextmanager
async def _ends_with_rights(caller: Principal, state: AppState) -> AsyncIterator[None]:
    """Cancel what runs in here when the person is signed out, disabled, or the process ends."""
    task = asyncio.current_task()
    assert task is not None
    revoked = False

    def end() -> None:
        nonlocal revoked
        revoked = True
        task.cancel()

    with state.revoker.watching(caller, end):
        try:
            yield
        except asyncio.CancelledError:
            if not revoked:
                raise
            task.uncancel()
            raise Refused("unauthorized", "You were signed out, or the token was revoked.") from None
