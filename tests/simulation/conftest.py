"""The product stands on the simulation while a test of this directory runs, and nowhere else."""

from collections.abc import Iterator

import pytest

from tests.simulation.determinism import deterministic


@pytest.fixture
def simulated() -> Iterator[None]:
    with deterministic():
        yield
