"""Admit people to SSH into a workspace, and carry their session.

Called by the WebSocket (``routes/ssh``) and by the gateway (``ssh/gateway``), each for a person it has authenticated
and a workspace that person may use. Refusals are ``CodeHubError``s, raised before anything wakes.
"""

from dataclasses import dataclass
from enum import StrEnum
from functools import partial

import structlog

from codehub.api import problems
from codehub.api.dependencies import SshAccess
from codehub.api.inside.endings import CLOSED, ENDING, LOST, STOPPED, SessionEnd
from codehub.api.ssh.session import SshClient, SshSession
from codehub.api.state import AppState
from codehub.domain.waking import Phase, error_note, phase_of
from codehub.services import workspaces as service
from codehub.services.errors import WorkspaceDeleted
from codehub.services.identity import Principal
from codehub.services.inside import record_use
from codehub.store.workspaces.records import WorkspaceRecord

log = structlog.get_logger(__name__)

NO_SSH = "SSH is not available here. On the server, codehub doctor says why."


class Wake(StrEnum):
    """Whether a connection wakes a workspace that sleeps."""

    FALSE = "false"
    TRUE = "true"  # not if this client's last session ended with the workspace, within ten minutes
    ALWAYS = "always"  # a person asked for it


@dataclass(frozen=True)
class Admitted:
    """Somebody who may connect to a workspace, which runs or is going to. ``client``: who is known to come back."""

    record: WorkspaceRecord
    caller: Principal
    state: AppState
    access: SshAccess
    client: str


def ssh_access(state: AppState) -> SshAccess:
    """Return the way into workspaces, or raise 503."""
    if state.deps.ssh is None:
        raise problems.Refused("unavailable", NO_SSH)
    return state.deps.ssh


async def admit(
    record: WorkspaceRecord, caller: Principal, state: AppState, *, wake: Wake, client: str, to_wake: str
) -> Admitted:
    """Wake the workspace if it sleeps and this may wake it, and record who goes in; or raise why not.

    ``client``: by what a client that comes back is known. ``to_wake``: the command by which a person wakes it.
    """
    access = ssh_access(state)
    record = await _running(record, caller, state, wake=wake, client=client, to_wake=to_wake)
    by_key = {"ssh_key": str(caller.key_id)} if caller.key_id is not None else {}
    async with state.sessions.begin() as session:
        await record_use(session, "ssh", record.view.id, actor=caller.actor, **by_key)
    return Admitted(record, caller, state, access, client)


async def carry(client: SshClient, admitted: Admitted, *, keep: bool) -> SessionEnd:
    """Carry one session to its end, and remember a client whose session ended with the workspace."""
    state, caller, workspace_id = admitted.state, admitted.caller, admitted.record.view.id
    log.info("ssh opened", workspace_id=str(workspace_id), user_id=str(caller.user.id))
    end = CLOSED
    try:
        session = SshSession(client, admitted.record, caller, state=state, access=admitted.access, keep=keep)
        end = await session.run()
        if end in (STOPPED, LOST, ENDING):
            await state.ended_clients.remember(workspace_id, admitted.client)
    finally:
        log.info("ssh ended", workspace_id=str(workspace_id), user_id=str(caller.user.id), reason=end.reason)
    return end


async def _running(
    record: WorkspaceRecord, caller: Principal, state: AppState, *, wake: Wake, client: str, to_wake: str
) -> WorkspaceRecord:
    """Return the workspace, which runs or is going to, or raise why not."""
    view = record.view
    if view.deleted_at is not None:
        raise WorkspaceDeleted(view.id)
    match phase_of(view):
        case Phase.RUNNING | Phase.WAKING:
            return record
        case Phase.ERROR:
            raise problems.Refused("not_running", f"{record.name} is in error. {error_note(view).message}")
        case Phase.ASLEEP:
            pass
    ended = state.ended_clients
    if wake is Wake.FALSE:
        raise problems.Refused("not_running", f"{record.name} is asleep. To wake it: {to_wake}")
    if wake is Wake.TRUE and await ended.comes_back(view.id, client):
        raise problems.Refused(
            "not_running",
            f"{record.name} was put to sleep with this client's session, and connecting again by itself does not "
            f"wake it. To wake it: {to_wake}",
        )
    start = partial(service.start, workspace_id=view.id, actor=caller.actor, limits=state.settings.limits)
    started = await state.intent_batcher.submit(start, row=view.id)
    await ended.forget(view.id, client)
    return started
