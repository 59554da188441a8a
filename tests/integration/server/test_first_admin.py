"""The first admin: made once, however many replicas start at the same moment on an empty database."""

import asyncio

from codehub.server.database import prepare_database
from codehub.server.settings.tree import load_settings
from codehub.services.accounts import ensure_first_admin
from codehub.services.passwords import Passwords
from codehub.store.accounts import users
from codehub.store.db.session import Sessions

REPLICAS = 6


async def test_one_of_many_replicas_migrates_and_makes_the_admin(empty_database_url: str) -> None:
    settings = load_settings({})
    made = await asyncio.gather(
        *(prepare_database(empty_database_url, settings, migrate=True) for _ in range(REPLICAS))
    )
    admins = [admin for admin in made if admin is not None]
    assert len(admins) == 1
    assert admins[0].generated_password
    assert admins[0].generated_password not in repr(admins[0])


async def test_the_password_is_the_configured_one(
    session_factory: Sessions,
) -> None:
    passwords = Passwords(threads=1)
    try:
        admin = await ensure_first_admin(session_factory, passwords, password="correct horse")
        assert admin is not None
        assert admin.generated_password is None
        async with session_factory() as session:
            found = await users.find_credentials(session, "admin")
        assert found is not None
        assert found[0].is_admin
        assert await passwords.verify(found[1], "correct horse")
        assert await ensure_first_admin(session_factory, passwords, password="another") is None
    finally:
        passwords.close()


async def test_a_proxy_by_itself_leaves_the_admin_to_the_api(empty_database_url: str) -> None:
    """It knows no first password, and often starts first."""
    proxy = load_settings({"CODEHUB_ROLES": "proxy"})
    api = load_settings({"CODEHUB_ROLES": "api,coordinators", "CODEHUB_ADMIN_PASSWORD": "correct horse"})
    assert await prepare_database(empty_database_url, proxy, migrate=True) is None
    admin = await prepare_database(empty_database_url, api, migrate=True)
    assert admin is not None
    assert admin.generated_password is None
