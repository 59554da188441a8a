"""Register and remove the public keys of people, for the SSH gateway."""

from uuid import UUID

from codehub.domain.errors import CodeHubError
from codehub.domain.ssh_keys import parse
from codehub.kit.ids import uuid7
from codehub.services.errors import NotFound
from codehub.services.identity import Principal
from codehub.store.accounts import audit, ssh_keys
from codehub.store.accounts.ssh_keys import SshKeyRecord
from codehub.store.db.session import Session
from codehub.store.errors import SshKeyTaken

MAX_KEYS = 50


class KeyTakenError(CodeHubError):
    """The key is registered already, by this person or another."""

    code = "key_taken"


class TooManyKeysError(CodeHubError):
    """The person has as many keys as one may have."""

    code = "too_many_keys"

    def __init__(self) -> None:
        super().__init__(f"You have {MAX_KEYS} keys, which is as many as one may have. Remove one first.")


async def add(session: Session, principal: Principal, *, name: str, public_key: str) -> SshKeyRecord:
    """Register a key. Raises ``UnfitKeyError``, ``KeyTakenError``, ``TooManyKeysError``."""
    key = parse(public_key)
    if await ssh_keys.lock_count(session, principal.user.id) >= MAX_KEYS:
        raise TooManyKeysError
    try:
        added = await ssh_keys.create(
            session,
            key_id=uuid7(),
            user_id=principal.user.id,
            name=name,
            public_key=key.text,
            fingerprint=key.fingerprint,
        )
    except SshKeyTaken as error:
        mine = await ssh_keys.list_all(session, principal.user.id)
        known = next((each.name for each in mine if each.fingerprint == key.fingerprint), None)
        raise KeyTakenError(
            f"You have this key already, as {known!r}."
            if known is not None
            else "This key belongs to another account. Make one for this account: ssh-keygen -t ed25519."
        ) from error
    await _audit(session, principal, "ssh_key.add", added)
    return added


async def remove(session: Session, principal: Principal, key_id: UUID) -> None:
    """Remove a key. Raises ``NotFound``, also for a key of another person."""
    removed = await ssh_keys.remove(session, principal.user.id, key_id)
    if removed is None:
        raise NotFound("key")
    await _audit(session, principal, "ssh_key.remove", removed)


async def _audit(session: Session, principal: Principal, action: str, key: SshKeyRecord) -> None:
    await audit.append(
        session,
        actor=principal.actor.label,
        action=action,
        subject=str(key.id),
        detail={"name": key.name, "fingerprint": key.fingerprint},
    )
