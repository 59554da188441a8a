"""Accounts of people, made by the product's own service, with passwords that cost little to check."""

import argon2

from codehub.domain.states import Role
from codehub.services import accounts
from codehub.services.passwords import Passwords
from codehub.store.accounts.users import UserRecord
from codehub.store.db.session import Sessions

PASSWORD = "correct horse battery"


def cheap_passwords(**options: int) -> Passwords:
    """As cheap as argon2 allows: tests sign in hundreds of times."""
    return Passwords(hasher=argon2.PasswordHasher(time_cost=1, memory_cost=8, parallelism=1), **options)


async def add_user(
    sessions: Sessions, passwords: Passwords, username: str, role: Role = Role.USER
) -> UserRecord:
    """Add a person whose password is ``PASSWORD``."""
    async with sessions.begin() as session:
        return await accounts.create_user(
            session, passwords, username=username, password=PASSWORD, role=role, actor="test"
        )
