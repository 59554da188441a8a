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
    return named(f"desired_{desired}", lambda world: world.intent(desired))


def cut(effects: int) -> Event:
    return named(f"leader_dies_after_{effects}", lambda world: world.tick(effects=effects))


def fail(effects: int) -> Event:
    return named(f"action_fails_after_{effects}", lambda world: world.tick(effects=effects, fails=True))


def look_and_tick(world: Simulator) -> None:
    world.observe()
    world.tick()


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
    world = Simulator()
    for event in story:
        event(world)
    return world


def settle(world: Simulator) -> None:
    """Faults off: looks and ticks, and a person who answers errors."""
    for _ in range(ENOUGH):
        world.observe()
        world.recover()
        world.observe()
        if isinstance(world.tick(), Skip) and world.is_healthy:
            return
    raise AssertionError(f"does not settle: {world.row}")


@settings(deadline=None, max_examples=300)
@given(STORIES, DESIRED)
def test_every_wish_converges_from_wherever_it_is(story: list[Event], desired: DesiredState) -> None:
    world = after(story)
    world.intent(desired)
    settle(world)
    assert world.row.observed_status.value == desired.value
    assert world.row.operation is Operation.NONE
    if world.volume is not None:
        assert world.volume == world.newest
    elif world.newest:
        assert world.archives[world.row.archive_key or ""] == world.newest


@settings(deadline=None, max_examples=150)
@given(STORIES)
def test_a_deletion_converges_from_wherever_it_is(story: list[Event]) -> None:
    world = after(story)
    world.delete()
    for _ in range(ENOUGH):
        world.observe()
        world.tick()
    assert world.row.observed_status is ObservedStatus.DELETED
    assert world.volume is None
    assert isinstance(world.decide(), Skip)


@settings(deadline=None, max_examples=150)
@given(STORIES, DESIRED)
def test_what_has_converged_is_left_alone(story: list[Event], desired: DesiredState) -> None:
    world = after(story)
    world.intent(desired)
    settle(world)
    before = deepcopy(world)
    for _ in range(3):
        world.observe()
        assert isinstance(world.tick(), Skip)
    assert (world.container, world.volume, world.archives) == (
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
    world = after(story)
    settle(world)
    world.intent(desired)
    world.tick(effects=first)
    world.tick(effects=second)
    settle(world)
    assert world.row.observed_status.value == desired.value
