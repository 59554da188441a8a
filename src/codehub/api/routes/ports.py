"""Route that tells what listens in a workspace that runs: ``GET /workspaces/{id}/ports``.

``inside`` looks, with the rights of the workspace's user; what it answers is the workspace's own claim. That is enough
for a list: whether a port is really this workspace's is asked again by the proxy, for each connection. Looking is no
use of the workspace: it wakes nothing and keeps nothing awake.
"""

from collections.abc import Sequence
from ipaddress import IPv4Address
from uuid import UUID

from codehub.api import problems
from codehub.api.auth import Caller
from codehub.api.dependencies import ApiSettings
from codehub.api.inside.admission import admitted
from codehub.api.inside.exchange import Exchange, exchange
from codehub.api.rendering import url_pattern
from codehub.api.routes.router import api_router
from codehub.api.routes.workspaces import find_visible
from codehub.api.schemas.files import MAX_LISTENERS, InsideAnswer, InsideListener
from codehub.api.schemas.ports import Port, Ports
from codehub.api.state import AppState, State
from codehub.domain.errors import EffectError
from codehub.services import inside as service
from codehub.services.identity import Principal

DOCKER_RESOLVER = IPv4Address("127.0.0.11")
"""Where Docker's own name server listens in each container: of no use to anybody else."""

router = api_router("/workspaces/{workspace_id}", "inside")


@router.get(
    "/ports",
    summary="What listens in it",
    responses=problems.documented(
        "unauthorized", "not_found", "deleted", "not_running", "waking", "validation_failed", "busy", "unavailable"
    ),
)  # fmt: skip
async def ports(workspace_id: UUID, caller: Caller, state: State) -> Ports:
    """TCP ports, at most 500 sockets. Never wakes, and is no use of it. On a shared network only its own."""
    async with admitted(workspace_id, caller, state, wake=False, is_use=False) as access:
        await _record_if_foreign(workspace_id, caller, state)
        request = {"do": "ports", "own_only": access.shares_network, "limit": MAX_LISTENERS}
        async with exchange(access, workspace_id, request) as opened:
            answer = await _answer(opened)
        try:
            ide_port = await access.ide_port(workspace_id)
        except EffectError as error:
            raise problems.Refused("unavailable", error.message) from error
    found = merge(
        answer.listeners,
        workspace_id=workspace_id,
        ide_port=ide_port,
        settings=state.settings,
    )
    return Ports(ports=found, truncated=answer.truncated, home=answer.home)


def merge(
    listeners: Sequence[InsideListener],
    *,
    workspace_id: UUID,
    ide_port: int | None,
    settings: ApiSettings,
) -> list[Port]:
    """One entry for each port, with its link: the proxy reaches the loopback of a container, too. Pure."""
    by_port: dict[int, list[InsideListener]] = {}
    for each in listeners:
        if each.address == DOCKER_RESOLVER and each.process is None:
            continue
        by_port.setdefault(each.port, []).append(each)
    return [
        Port(
            port=number,
            addresses=sorted({str(each.address) for each in sockets}),
            process=next((each.process for each in sockets if each.process), None),
            is_ide=number == ide_port,
            url=port_url(settings, workspace_id, None if number == ide_port else number),
        )
        for number, sockets in sorted(by_port.items())
    ]


def port_url(settings: ApiSettings, workspace_id: UUID, port: int | None) -> str:
    """Where the owner's browser reaches a port; None: the IDE."""
    pattern = url_pattern(settings.base_url, settings.base_domain)
    if port is None:
        return pattern.format(id=workspace_id)
    if settings.base_domain is not None:
        return pattern.format(id=f"{port}--{workspace_id}")
    return f"{pattern.format(id=workspace_id)}port/{port}/"


async def _answer(opened: Exchange) -> InsideAnswer:
    try:
        return await opened.answer()
    except problems.Refused as refused:
        if refused.code == "unavailable":
            raise
        # Only one of an older release refuses to look.
        raise problems.Refused(
            "unavailable", "The workspace was started by an older release: stop and start it once."
        ) from refused


async def _record_if_foreign(workspace_id: UUID, caller: Principal, state: AppState) -> None:
    """Only administrators see what is not theirs."""
    if not caller.user.is_admin:
        return
    found = await find_visible(workspace_id, caller, state)
    if found.view.owner_id != caller.user.id:
        async with state.sessions.begin() as session:
            await service.record_use(session, "ports", workspace_id, actor=caller.actor)
