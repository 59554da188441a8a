"""The invariants hold for every seed of the range, and a seed is a run that can be had again."""

import os

import pytest

from tests.simulation.seeds import DEFAULT, parse_seeds
from tests.simulation.simulation import investigate, run

SEEDS = parse_seeds(os.environ.get("SEED") or os.environ.get("SEEDS") or DEFAULT)
CHUNK = 20


@pytest.mark.usefixtures("simulated")
@pytest.mark.parametrize("first", SEEDS[::CHUNK])
def test_the_invariants_hold(first: int) -> None:
    for seed in SEEDS[first - SEEDS[0] : first - SEEDS[0] + CHUNK]:
        outcome = investigate(seed)
        assert outcome.problem is None, outcome.report()


@pytest.mark.usefixtures("simulated")
@pytest.mark.parametrize("seed", [3, 11])
def test_a_seed_takes_the_same_steps_again(seed: int) -> None:
    first, second = run(seed, traced=True), run(seed, traced=True)
    assert first.trace == second.trace
    assert first.steps == run(seed).steps  # looking on changes nothing


@pytest.mark.usefixtures("simulated")
def test_a_run_is_about_something() -> None:
    """A simulation in which nothing happens would hold every invariant."""
    told = "\n".join(line for seed in range(60) for line in run(seed, traced=True).trace)
    for expected in (
        "job archived generation",
        "job restored generation",
        "is killed at",
        "is frozen for",
        "waits for a node",
        "has a node",
        "is cancelled at",
        ", an action",
        "is swapped for another",
        "archives removed",
        "lowered",
        "engine is away",
        "operation gave up",
        "outcome not written",
        "'to': 'STANDBY'",
    ):
        assert expected in told, expected
