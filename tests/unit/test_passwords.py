"""Passwords are hashed with argon2id, aside, and an unknown name is as slow as a known one."""

from collections.abc import Iterator

import pytest

from codehub.services import passwords as module
from codehub.services.passwords import Passwords, generate, why_unfit
from tests.support.accounts import cheap_passwords


@pytest.fixture
def passwords() -> Iterator[Passwords]:
    passwords = cheap_passwords(threads=2)
    yield passwords
    passwords.close()


async def test_only_the_right_password_is_accepted(passwords: Passwords) -> None:
    stored = await passwords.hash("correct horse")
    assert stored.startswith("$argon2id$")
    assert await passwords.verify(stored, "correct horse")
    assert not await passwords.verify(stored, "wrong horse")


async def test_nobodys_password_is_never_right_but_is_verified(passwords: Passwords) -> None:
    assert not await passwords.verify(None, "correct horse")
    assert not await passwords.verify("not a hash", "correct horse")


async def test_weaker_parameters_ask_for_a_new_hash(passwords: Passwords) -> None:
    stored = await passwords.hash("correct horse")
    assert not passwords.needs_rehash(stored)
    strong = Passwords(threads=1)
    assert strong.needs_rehash(stored)
    strong.close()


def test_rules() -> None:
    assert why_unfit("a" * (module.MIN_LENGTH - 1))
    assert why_unfit("a" * (module.MAX_LENGTH + 1))
    assert why_unfit(generate()) is None
    assert generate() != generate()
