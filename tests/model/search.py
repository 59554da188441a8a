"""The search: every step in every order, breadth first, and from every state the way to rest.

*Safety*: no reachable state breaks an invariant. The first that does comes with the shortest way to it.

*Liveness*: from every reachable state, if from now on nothing breaks and a person answers errors, the
workspace comes to rest where it is wanted. The continuation is deterministic, so states it has led to rest
once need not be walked again.
"""

from collections import deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from codehub.domain.plan import Skip
from codehub.domain.states import Operation
from tests.model import decisions, environment, leader
from tests.model.invariants import target_is_shown, violation
from tests.model.rules import Rules
from tests.model.state import GIVEN_UP, Budget, State

MAX_STATES = 100_000
ENOUGH = 200  # steps that a workspace may need to come to rest


@dataclass(frozen=True)
class Scenario:
    name: str
    start: State
    intents: tuple[str, ...]


@dataclass
class Result:
    scenario: str
    states: int = 0
    broken: str | None = None
    trace: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        steps = "\n".join(f"  {number:2} {step}" for number, step in enumerate(self.trace, 1))
        return f"{self.scenario}: {self.states} states, {self.broken or 'nothing broken'}\n{steps}"


def search(
    scenario: Scenario, rules: Rules, *, liveness: bool = True, unless: Collection[str] = ()
) -> Result:
    """Visit everything reachable; stop at the first broken invariant, ``unless`` it is one of these."""
    came_from: dict[State, tuple[State, str] | None] = {scenario.start: None}
    queue = deque([scenario.start])
    settled: set[State] = set()
    result = Result(scenario.name)
    while queue:
        state = queue.popleft()
        result.states += 1
        assert result.states <= MAX_STATES, f"{scenario.name} is too big for a model"
        broken = violation(state)
        result.broken = None if broken in unless else broken
        if result.broken is None and liveness:
            result.broken = unsettled(state, rules, settled)
        if result.broken is not None:
            result.trace = _way_to(state, came_from)
            return result
        for name, after in successors(state, scenario, rules):
            if after not in came_from:
                came_from[after] = (state, name)
                queue.append(after)
    return result


def successors(state: State, scenario: Scenario, rules: Rules) -> Iterator[tuple[str, State]]:
    for name, after in _raw_successors(state, scenario, rules):
        shown = after.shown or (after.row.acted and target_is_shown(after))
        yield name, after if shown == after.shown else after._replace(shown=shown)


def _raw_successors(state: State, scenario: Scenario, rules: Rules) -> Iterator[tuple[str, State]]:
    current = state.leader
    for name, after, mover in leader.steps(state, current, rules):
        yield f"leader {name}", after._replace(leader=mover or current)
    for name, after, mover in leader.expire(state, current, rules):
        yield f"leader: {name}", after._replace(leader=mover)
    if state.ghost is not None:
        for name, after, mover in leader.steps(state, state.ghost, rules):
            # A deposed leader finishes what it was doing; its loop finds out before it plans again.
            ghost = mover if mover is not None and mover.doing != "nothing" else None
            yield f"ghost {name}", after._replace(ghost=ghost)
    yield from environment.observer(state, rules)
    yield from environment.storage_job(state)
    yield from environment.person(state, scenario.intents, rules)
    yield from environment.faults(state)


def unsettled(state: State, rules: Rules, settled: set[State]) -> str | None:
    """Why the fair continuation of this state does not come to rest; None: it does."""
    state = state._replace(budget=Budget(), ghost=None)
    walked: list[State] = []
    for _ in range(ENOUGH):
        if state in settled or _is_at_rest(state, rules):
            settled.update(walked)
            return None
        walked.append(state)
        following = _next_fair(state, rules)
        if following is None:
            return f"stuck at {state.row}"
        state = following
        if (broken := violation(state)) is not None:
            return f"{broken}, even with nothing breaking any more"
    return f"never settles: {state.row}"


def _next_fair(state: State, rules: Rules) -> State | None:
    """One step of a run in which everybody gets a turn and nothing breaks."""
    quiet = Scenario("", state, ())
    row = state.row
    if row.terminal and row.health_error and not row.deleted and state.look is None:
        return environment.recover(state, rules)
    moves = dict(_raw_successors(state, quiet, rules))
    for wanted in ("job", "leader", "Observer"):
        for name, after in moves.items():
            if name.startswith(wanted) and after != state:
                shown = after.shown or (after.row.acted and target_is_shown(after))
                return after._replace(shown=shown)
    if row.error == GIVEN_UP and row.operation is Operation.NONE:  # its time comes, hours after every look
        return environment.recover(state, rules)
    return None


def _is_at_rest(state: State, rules: Rules) -> bool:
    """Where it is wanted, or with an error that only the person who runs CodeHub can answer."""
    row = state.row
    if row.error == "unexpected":  # an archive nobody refers to: somebody must say which home is right
        return True
    if row.error == "broken" and not row.deleted:  # a container without its volume: the disk must come back
        return True
    if row.operation is not Operation.NONE or next(environment.observer(state, rules), None) is not None:
        return False
    if row.deleted:
        # An operation that gave up in the very moment of the deletion may leave an orphan, which is listed.
        return row.observed.value == "DELETED" and (state.resources.volume is None or row.terminal)
    converged = row.observed.value == row.desired.value and not row.health_error and not row.terminal
    return converged and isinstance(decisions.decide(row, rules), Skip)


def _way_to(state: State, came_from: dict[State, tuple[State, str] | None]) -> list[str]:
    trace: list[str] = []
    step = came_from[state]
    while step is not None:
        before, name = step
        trace.append(name)
        step = came_from[before]
    return trace[::-1]
