"""The product stands on the simulation while a test of this room runs, and nowhere else."""

from collections.abc import Iterator

import pytest

from tests.simulation.substitution import substituted


@pytest.fixture
def simulated() -> Iterator[None]:
    with substituted():
        yield
