"""Routes of labels and shares of ports: ``/workspaces/{id}/shares``.

They say who may open a port besides the owner; the proxy carries it out (``proxy/access/policy``). None of them wakes a
workspace or is a use of it.
"""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Annotated
from uuid import UUID

from fastapi import Path, Response

from codehub.api import problems
from codehub.api.auth import Caller
from codehub.api.routes.ports import port_url
from codehub.api.routes.router import api_router
from codehub.api.routes.workspaces import find_visible
from codehub.api.schemas.ports import NewShare, PortNumber, Share, Shares
from codehub.api.state import AppState, State
from codehub.domain.errors import EffectError
from codehub.domain.port_shares import PortShare, ShareLevel, level_now, link_key
from codehub.domain.waking import Phase, phase_of
from codehub.services import port_shares as service
from codehub.services.port_shares import ShareRefused
from codehub.signals.live import Change
from codehub.store.workspaces.records import WorkspaceRecord

router = api_router("/workspaces/{workspace_id}/shares", "inside")

SharedPort = Annotated[PortNumber, Path()]
IDE_SECONDS = 2.0


@router.get(
    "",
    summary="Labels and shares of its ports",
    responses=problems.documented("unauthorized", "not_found", "validation_failed"),
)
async def list_shares(workspace_id: UUID, caller: Caller, state: State) -> Shares:
    """Whether it runs or not, and what the installation allows."""
    async with state.reading() as session:
        found = await service.list_shares(session, workspace_id, actor=caller.actor)
    policy = state.settings.share_policy
    return Shares(
        shares=[_share(workspace_id, each, state) for each in found],
        highest=policy.highest,
        lower_because=None
        if policy.highest is ShareLevel.PUBLIC
        else "ceiling"
        if policy.has_origins
        else "no_base_domain",
        max_link_hours=int(policy.max_link / timedelta(hours=1)),
    )


@router.put(
    "/{port}",
    summary="Label or share a port",
    responses=problems.documented(
        "unauthorized",
        "csrf",
        "not_found",
        "deleted",
        "share_refused",
        "too_many_shares",
        "validation_failed",
    ),
)
async def share_port(
    workspace_id: UUID, port: SharedPort, body: NewShare, caller: Caller, state: State
) -> Share:
    """Whoever is not let in any more is cut off at once. Visitors wake nothing and keep nothing awake."""
    if body.level is not ShareLevel.PRIVATE:
        await _require_not_ide(await find_visible(workspace_id, caller, state), port, state)
    wanted = PortShare(port, body.label, body.level, None, None)
    async with state.sessions.begin() as session:
        record, made = await service.share(
            session,
            workspace_id,
            wanted,
            lasts=timedelta(seconds=body.lasts_seconds) if body.lasts_seconds is not None else None,
            new_link=body.new_link,
            policy=state.settings.share_policy,
            actor=caller.actor,
            now=datetime.now(UTC),
        )
    await _tell_proxies(record, state)
    return _share(workspace_id, made, state)


@router.delete(
    "/{port}",
    summary="Take a share back",
    status_code=204,
    responses=problems.documented("unauthorized", "csrf", "not_found", "deleted", "validation_failed"),
)
async def unshare_port(workspace_id: UUID, port: SharedPort, caller: Caller, state: State) -> Response:
    """The label goes too. Visitors are cut off at once."""
    async with state.sessions.begin() as session:
        record = await service.unshare(session, workspace_id, port, actor=caller.actor)
    await _tell_proxies(record, state)
    return Response(status_code=204)


async def _require_not_ide(record: WorkspaceRecord, port: int, state: AppState) -> None:
    """Refuse the IDE's own port, while that is known. The proxy lets no visitor there in any case."""
    access = state.deps.inside
    if access is None or phase_of(record.view) is not Phase.RUNNING:
        return
    try:
        async with asyncio.timeout(IDE_SECONDS):
            ide_port = await access.ide_port(record.view.id)
    except (EffectError, TimeoutError):
        return
    if port == ide_port:
        raise ShareRefused(
            "This is the port of the IDE: whoever opens it has the terminal and all files. It is never shared."
        )


async def _tell_proxies(record: WorkspaceRecord, state: AppState) -> None:
    """Lost, or not sent because this process dies here: cached answers end within 2 s, connections within 15 s."""
    if state.deps.publisher is not None:
        view = record.view
        change = Change(view.id, view.owner_id, view.version, frozenset({"port_shares"}))
        await state.deps.publisher.publish_changes([change])


def _share(workspace_id: UUID, share: PortShare, state: AppState) -> Share:
    settings = state.settings
    now_level = level_now(share, settings.share_policy, now=datetime.now(UTC))
    url = port_url(settings, workspace_id, share.port)
    key = link_key(settings.link_secret, workspace_id, share) if now_level is ShareLevel.PUBLIC else None
    return Share(
        port=share.port,
        label=share.label,
        level=share.level,
        level_now=now_level,
        expires_at=share.expires_at,
        url=url,
        link=f"{url}_codehub/share?key={key}" if key is not None else None,
    )
