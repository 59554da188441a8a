"""Users, their sessions and tokens: found by hash, and only while they count."""

from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text, update
from sqlmodel import col, select

from codehub.domain.states import Role
from codehub.kit.ids import uuid7
from codehub.store.accounts import audit, sessions, tokens, users
from codehub.store.accounts.secrets import hash_secret
from codehub.store.db import statements
from codehub.store.db.session import Session, Sessions
from codehub.store.errors import UsernameTaken
from codehub.store.schema.tables import SignInSession, api_tokens
from codehub.store.schema.tables import sessions as sessions_table
from tests.integration.store.factory import make_user

DAY = timedelta(days=1)


async def sign_in(session: Session, user_id: UUID, secret: str = "secret") -> UUID:
    session_id = uuid4()
    await sessions.create(
        session,
        session_id=session_id,
        user_id=user_id,
        secret_hash=hash_secret(secret),
        idle=14 * DAY,
        absolute=90 * DAY,
    )
    return session_id


async def test_a_name_is_taken_whatever_its_case_and_the_transaction_goes_on(session: Session) -> None:
    ann = await users.create(session, user_id=uuid7(), username="Ann", password_hash="h", role=Role.ADMIN)
    with pytest.raises(UsernameTaken, match="ann"):
        await users.create(session, user_id=uuid7(), username="ann", password_hash="h")
    assert await users.find_by_username(session, "ANN") == ann
    assert await users.find_credentials(session, "ann") == (ann, "h")
    assert await users.find(session, ann.id) == ann
    assert ann.is_admin
    assert await users.find_by_username(session, "bob") is None
    assert await users.find_credentials(session, "bob") is None


async def test_users_can_be_changed_and_listed(session: Session) -> None:
    ids = [await make_user(session) for _ in range(5)]
    assert await users.set_role(session, ids[0], Role.ADMIN)
    assert await users.set_password_hash(session, ids[0], "new")
    assert await users.find_password_hash(session, ids[0]) == "new"
    assert await users.set_disabled(session, ids[1], disabled=True)
    disabled = await users.find(session, ids[1])
    assert disabled is not None
    assert disabled.disabled_at is not None
    assert await users.set_disabled(session, ids[1], disabled=True)
    assert await users.find(session, ids[1]) == disabled  # the first time stays
    assert not await users.set_role(session, uuid4(), Role.ADMIN)

    first = await users.list_page(session, limit=3)
    assert first.next_cursor is not None
    rest = await users.list_page(session, limit=3, cursor=UUID(first.next_cursor))
    assert rest.next_cursor is None
    assert {user.id for user in [*first.items, *rest.items]} == set(ids)


async def test_counting_admins_shuts_out_others_who_count(
    session: Session, session_factory: Sessions
) -> None:
    admin = await make_user(session)
    await users.set_role(session, admin, Role.ADMIN)
    await session.commit()
    assert await users.lock_admins(session) == 1
    async with session_factory() as other:
        await other.exec(text("SET LOCAL lock_timeout = '10ms'"))
        with pytest.raises(Exception, match="lock timeout"):
            await users.lock_admins(other)


async def test_a_session_counts_until_it_ends(session: Session) -> None:
    user_id = await make_user(session, "ann")
    session_id = await sign_in(session, user_id)
    signed_in = await sessions.find_valid(session, hash_secret("secret"))
    assert signed_in is not None
    assert (signed_in.session_id, signed_in.user.username) == (session_id, "ann")
    assert signed_in.expires_at - signed_in.created_at > 89 * DAY
    assert await sessions.find_valid(session, hash_secret("other")) is None
    assert await sessions.find_valid(session, "secret") is None  # the secret itself is stored nowhere

    assert await sessions.end(session, signed_in.session_id)
    assert await sessions.find_valid(session, hash_secret("secret")) is None


@pytest.mark.parametrize("column", ["idle_expires_at", "expires_at"])
async def test_an_expired_session_is_none_and_is_purged(column: str, session: Session) -> None:
    user_id = await make_user(session)
    await sign_in(session, user_id, "old")
    past = await statements.now(session) - DAY
    await session.exec(update(sessions_table).values({column: past}))
    await sign_in(session, user_id, "new")
    assert await sessions.find_valid(session, hash_secret("old")) is None
    assert await sessions.purge_expired(session) == 1
    assert await sessions.find_valid(session, hash_secret("new")) is not None


async def test_use_moves_the_idle_end_and_not_the_absolute_one(session: Session) -> None:
    await sign_in(session, await make_user(session))
    before = await sessions.find_valid(session, hash_secret("secret"))
    assert before is not None
    await sessions.touch(session, before.session_id, idle=30 * DAY)
    after = await sessions.find_valid(session, hash_secret("secret"))
    assert after is not None
    assert after.expires_at == before.expires_at
    assert after.last_seen_at > before.last_seen_at
    idle = (await session.exec(select(col(SignInSession.idle_expires_at)))).one()
    assert idle - before.last_seen_at > 30 * DAY


async def test_a_disabled_person_is_signed_in_nowhere(session: Session) -> None:
    user_id = await make_user(session)
    await sign_in(session, user_id)
    await tokens.create(
        session, token_id=uuid7(), user_id=user_id, name="ci", secret_hash=hash_secret("t"), expires_at=None
    )
    await users.set_disabled(session, user_id, disabled=True)
    assert await sessions.find_valid(session, hash_secret("secret")) is None
    assert await tokens.find_valid(session, hash_secret("t")) is None


async def test_other_sessions_end_with_a_new_password(session: Session) -> None:
    user_id = await make_user(session)
    for secret in ("here", "there", "elsewhere"):
        await sign_in(session, user_id, secret)
    await sign_in(session, await make_user(session), "somebody else")
    here = await sessions.find_valid(session, hash_secret("here"))
    assert here is not None
    assert await sessions.end_all(session, user_id, except_id=here.session_id) == 2
    assert await sessions.find_valid(session, hash_secret("here")) is not None
    assert await sessions.end_all(session, user_id) == 1
    assert await sessions.find_valid(session, hash_secret("somebody else")) is not None


async def test_a_token_counts_until_it_expires_or_is_revoked(session: Session) -> None:
    user_id, other = await make_user(session), await make_user(session)
    tomorrow = await statements.now(session) + DAY
    made = await tokens.create(
        session,
        token_id=uuid7(),
        user_id=user_id,
        name="ci",
        secret_hash=hash_secret("t"),
        expires_at=tomorrow,
    )
    found = await tokens.find_valid(session, hash_secret("t"))
    assert found is not None
    assert (found[0], found[1].id) == (made, user_id)
    await tokens.touch(session, made.id)
    [listed] = (await tokens.list_page(session, user_id)).items
    assert listed.last_used_at is not None

    await session.exec(update(api_tokens).values(expires_at=tomorrow - 2 * DAY))
    assert await tokens.find_valid(session, hash_secret("t")) is None
    await session.exec(update(api_tokens).values(expires_at=None))
    assert await tokens.find_valid(session, hash_secret("t")) is not None

    assert not await tokens.revoke(session, other, made.id)
    assert await tokens.revoke(session, user_id, made.id)
    assert not await tokens.revoke(session, user_id, made.id)
    assert await tokens.find_valid(session, hash_secret("t")) is None
    assert (await tokens.list_page(session, user_id)).items == []
    assert await tokens.revoke_all(session, user_id) == 0


async def test_the_audit_is_read_newest_first(session: Session) -> None:
    for number in range(4):
        await audit.append(session, actor="ann", action="workspace.start", subject=str(number))
    await audit.append(session, actor="bob", action="user.disable", detail={"username": "eve"})
    first = await audit.list_page(session, limit=3)
    assert [entry.action for entry in first.items][:2] == ["user.disable", "workspace.start"]
    assert first.items[0].detail == {"username": "eve"}
    assert first.next_cursor is not None
    rest = await audit.list_page(session, limit=3, cursor=int(first.next_cursor))
    assert [entry.subject for entry in rest.items] == ["1", "0"]
    assert rest.next_cursor is None


async def test_no_deed_no_entry(session: Session) -> None:
    await audit.append(session, actor="ann", action="nothing")
    await session.rollback()
    assert (await audit.list_page(session)).items == []
