"""A environment on the run's cluster for every test that asks for one."""

from uuid import UUID, uuid4

import pytest

from tests.support.kubernetes_environment import environment, store

__all__ = ["environment", "store"]


@pytest.fixture
def ws() -> UUID:
    return uuid4()
