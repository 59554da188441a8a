"""Each planted bug is found by a seed of the range, and that seed holds without it."""

import pytest

from tests.simulation.bugs import BUGS, Bug
from tests.simulation.seeds import DEFAULT, parse_seeds
from tests.simulation.simulation import run


@pytest.mark.usefixtures("simulated")
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(bug: Bug) -> None:
    for seed in parse_seeds(DEFAULT):
        with bug.planted():
            outcome = run(seed, focus=bug.faults or None)
        if outcome.problem is not None:
            print(f"seed {seed}: {outcome.problem}")
            assert run(seed, focus=bug.faults or None).problem is None, "found something else as well"
            return
    pytest.fail(f"no seed finds: {bug.name}")
