"""Whatever happened before and wherever it was cut: every intent converges, and rest is rest."""

from collections.abc import Callable
from copy import deepcopy

from hypothesis import given, settings
from hypothesis import strategies as st

from codehub.domain.plan import Skip
from codehub.domain.states import DesiredState, ObservedStatus, Operation

from .simulator import Simulator

ENOUGH = 40  # ticks with a look after each
Event = Callable[[Simulator], object]

DESIRED = st.sampled_from(DesiredState)


def named(name: str, event: Event) -> Event:
    event.__name__ = name
    return event


def intent(desired: DesiredState) -> Event:
    return named(f"desired_{desired}", lambda simulator: simulator.intent(desired))


def cut(effects: int) -> Event:
    return named(f"leader_dies_after_{effects}", lambda simulator: simulator.tick(effects=effects))


def fail(effects: int) -> Event:
    return named(
        f"action_fails_after_{effects}", lambda simulator: simulator.tick(effects=effects, fails=True)
    )


def look_and_tick(simulator: Simulator) -> None:
    simulator.observe()
    simulator.tick()


EVENTS = st.one_of(
    DESIRED.map(intent),
    st.integers(0, 5).map(cut),
    st.integers(0, 5).map(fail),
    st.just(look_and_tick),
    st.just(look_and_tick),
    st.sampled_from([Simulator.observe, Simulator.edit, Simulator.crash, Simulator.recover]),
)
STORIES = st.lists(EVENTS, max_size=40)


def after(story: list[Event]) -> Simulator:
    simulator = Simulator()
    for event in story:
        event(simulator)
    return simulator


def settle(simulator: Simulator) -> None:
    """Faults off: looks and ticks, and a person who answers errors."""
    for _ in range(ENOUGH):
        simulator.observe()
        simulator.recover()
        simulator.observe()
        if isinstance(simulator.tick(), Skip) and simulator.is_healthy:
            return
    raise AssertionError(f"does not settle: {simulator.row}")


@settings(deadline=None, max_examples=300)
@given(STORIES, DESIRED)
def test_every_intent_converges_from_wherever_it_is(story: list[Event], desired: DesiredState) -> None:
    simulator = after(story)
    simulator.intent(desired)
    settle(simulator)
    assert simulator.row.observed_status.value == desired.value
    assert simulator.row.operation is Operation.NONE
    if simulator.volume is not None:
        assert simulator.volume == simulator.newest
    elif simulator.newest:
        assert simulator.archives[simulator.row.archive_key or ""] == simulator.newest


@settings(deadline=None, max_examples=150)
@given(STORIES)
def test_a_deletion_converges_from_wherever_it_is(story: list[Event]) -> None:
    simulator = after(story)
    simulator.delete()
    for _ in range(ENOUGH):
        simulator.observe()
        simulator.tick()
    assert simulator.row.observed_status is ObservedStatus.DELETED
    assert simulator.volume is None
    assert isinstance(simulator.decide(), Skip)


@settings(deadline=None, max_examples=150)
@given(STORIES, DESIRED)
def test_what_has_converged_is_left_alone(story: list[Event], desired: DesiredState) -> None:
    simulator = after(story)
    simulator.intent(desired)
    settle(simulator)
    before = deepcopy(simulator)
    for _ in range(3):
        simulator.observe()
        assert isinstance(simulator.tick(), Skip)
    assert (simulator.container, simulator.volume, simulator.archives) == (
        before.container,
        before.volume,
        before.archives,
    )


@settings(deadline=None, max_examples=150)
@given(STORIES, DESIRED, st.integers(0, 6), st.integers(0, 6))
def test_any_interrupted_prefix_still_converges(
    story: list[Event], desired: DesiredState, first: int, second: int
) -> None:
    """The leader dies after any number of effects, and so does its successor."""
    simulator = after(story)
    settle(simulator)
    simulator.intent(desired)
    simulator.tick(effects=first)
    simulator.tick(effects=second)
    settle(simulator)
    assert simulator.row.observed_status.value == desired.value
