"""Routes for one's own public keys: ``/ssh-keys``. They are used at the SSH gateway (``api/ssh/gateway``)."""

from uuid import UUID

from fastapi import Response

from codehub.api import problems
from codehub.api.auth import Caller
from codehub.api.routes.router import api_router
from codehub.api.schemas.ssh_keys import NewSshKey, SshGateway, SshKey, SshKeys
from codehub.api.state import State
from codehub.services import ssh_keys as service
from codehub.store.accounts import ssh_keys

router = api_router("/ssh-keys", "ssh")


@router.get("", summary="My SSH keys", response_model=SshKeys, responses=problems.documented("unauthorized"))
async def list_ssh_keys(caller: Caller, state: State) -> SshKeys:
    """All of them, newest first, and where they are used."""
    async with state.reading() as session:
        found = await ssh_keys.list_all(session, caller.user.id)
    gateway = state.settings.ssh_gateway
    return SshKeys(
        items=[SshKey.model_validate(each) for each in found],
        next_cursor=None,
        gateway=SshGateway.model_validate(gateway) if gateway is not None else None,
    )


@router.post(
    "",
    summary="Add an SSH key",
    status_code=201,
    response_model=SshKey,
    responses=problems.documented("unauthorized", "csrf", "key_taken", "too_many_keys", "unfit_key"),
)
async def add_ssh_key(body: NewSshKey, caller: Caller, state: State) -> SshKey:
    """A public key belongs to one person. Whoever has its private key connects as you."""
    async with state.sessions.begin() as session:
        added = await service.add(session, caller, name=body.name, public_key=body.public_key)
    return SshKey.model_validate(added)


@router.delete(
    "/{key_id}",
    summary="Remove an SSH key",
    status_code=204,
    responses=problems.documented("unauthorized", "csrf", "not_found", "validation_failed"),
)
async def remove_ssh_key(key_id: UUID, caller: Caller, state: State) -> Response:
    """Connections that were opened with it end at once."""
    async with state.sessions.begin() as session:
        await service.remove(session, caller, key_id)
    await state.identities.changed(caller.user.id)
    return Response(status_code=204)
