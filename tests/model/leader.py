"""How a leader carries out what the plan says: one interruptible step at a time.

A leader reads the row and decides; that is one step. Writing the decision is another, so anything may
happen in between. An action is a program of steps, and a takeover may come between any two: the old leader
then keeps its program and its snapshot, and goes on whenever the search lets it.
"""

from collections.abc import Iterator

from codehub.domain.plan import Act, Claim, Complete, Expire, Fail, Halt, Mark, SwitchArchive
from codehub.domain.policy import Drop, GiveUp, Release, Retry
from codehub.domain.states import Operation
from tests.model import decisions, runtime
from tests.model.invariants import LEFT_UNARCHIVED, broken_by_effect, target_is_shown
from tests.model.rules import Rules
from tests.model.state import GIVEN_UP, Leader, Row, State, content_of

EFFECTS = {"look for archives", "provision", "start", "stop", "delete volume", "begin job", "end job"}


def program(seen: Row, rules: Rules) -> tuple[str, ...]:
    """The steps of the action of an operation, given what its leader knew when it began."""
    stop = ("stop",) if rules.stop_first else ()
    match seen.operation:
        case Operation.PROVISIONING:
            return ("look for archives", "provision", "acted")
        case Operation.RESTORING:
            return (*stop, "begin job", "await job", "restored")
        case Operation.STARTING:
            return ("start", "acted")
        case Operation.STOPPING:
            return ("stop", "acted")
        case Operation.DELETING:
            return (*stop, "end job", "re-check", "delete volume", "acted")
        case Operation.ARCHIVING if not decisions.view(seen, rules).volume_is_trusted:
            return (*stop, "re-check", "delete volume", "acted")
        case Operation.ARCHIVING if rules.commit_before_delete:
            return (*stop, "begin job", "await job", "commit key")
        case Operation.ARCHIVING:
            return (*stop, "begin job", "await job", "re-check", "delete volume", "commit key", "acted")
        case _:
            raise AssertionError(seen.operation)


def steps(state: State, leader: Leader, rules: Rules) -> Iterator[tuple[str, State, Leader | None]]:
    """Every next step of this leader: what it is called, the state after it, the leader after it."""
    idle = Leader(leader.epoch)
    if leader.doing == "nothing":
        yield from _decide(state, leader, rules)
        return
    seen = leader.seen
    assert seen is not None
    if leader.doing == "acting":
        yield from _act(state, leader, seen, rules)
    elif leader.doing == "failed":
        yield from _judge_failure(state, leader, seen, rules)
    elif leader.doing == "ending":
        yield from _end(state, leader, seen, rules)
    else:
        after, next_leader = _write_decision(state, leader, seen, rules)
        yield f"writes {leader.doing} {seen.operation}", after, next_leader or idle


def _decide(state: State, leader: Leader, rules: Rules) -> Iterator[tuple[str, State, Leader]]:
    row = state.row
    match decisions.decide(row, rules):
        case Claim(operation=operation):
            doing = f"claim {operation.value}"
        case Halt():
            doing = "halt"
        case Mark():
            doing = "mark"
        case SwitchArchive():
            doing = "switch"
        case Complete():
            doing = "complete"
        case Fail(failure=failure):
            yield "sees no effect", state, leader._replace(doing="failed", seen=row, failure=failure.failure)
            return
        case Act():
            yield f"acts on {row.operation}", state, leader._replace(doing="acting", seen=row)
            return
        case _:
            return
    yield f"decides to {doing}", state, leader._replace(doing=doing, seen=row)


def _write_decision(state: State, leader: Leader, seen: Row, rules: Rules) -> tuple[State, Leader | None]:
    """Claim, halt, mark or complete, if the row (still) allows it."""
    row = state.row
    if leader.doing == "complete":
        if not _may_write(state, leader, seen, rules):
            return state, None
        problem = state.problem if state.shown else "completed, though its target was never true"
        return _written(state, decisions.completed(row, seen, rules))._replace(problem=problem), None
    if not _as_planned(state, leader, seen, rules):
        return state, None
    if leader.doing == "halt":
        return _written(state, row._replace(error="vanished")), None
    if leader.doing == "mark":
        return _written(state, decisions.marked(row, seen)), None
    if leader.doing == "switch":
        return _switched(state, seen, rules), None
    operation = Operation(leader.doing.removeprefix("claim "))
    after = _written(state, decisions.claimed(row, operation, rules))
    return after, leader._replace(doing="acting", seen=after.row, step=0)


def _switched(state: State, seen: Row, rules: Rules) -> State:
    """The chosen archive is the home from here on. What the person leaves must be in an archive."""
    after = _written(state, decisions.switched(state.row, seen, rules))
    kept = any(content == state.newest for _, content in state.resources.archives)
    problem = state.problem if kept or not state.newest else LEFT_UNARCHIVED
    newest = content_of(state.resources, after.row.archive_key)
    assert newest is not None, "only archives that exist are chosen"
    return after._replace(newest=newest, problem=problem)


def _act(state: State, leader: Leader, seen: Row, rules: Rules) -> Iterator[tuple[str, State, Leader | None]]:
    step = program(seen, rules)[leader.step]
    forward = leader._replace(step=leader.step + 1)
    idle = Leader(leader.epoch)
    name = f"{seen.operation}: {step}"
    if step in EFFECTS:
        yield from _effect(state, leader, step, rules)
    elif step == "await job":
        yield from _await_job(state, leader, seen)
    elif not _may_write(state, leader, seen, rules):
        yield f"{name} (refused)", state, idle
    elif step == "re-check":
        yield name, state, forward
    elif step == "acted":
        yield name, _acted(state, state.row._replace(acted=True, fresh=False)), idle
    elif step == "restored":
        yield name, _acted(state, decisions.restored(state.row, seen)), idle
    else:
        assert leader.key is not None
        committed = decisions.archive_committed(state.row, seen, leader.key, rules)
        after = _acted(state, committed) if committed.acted else _written(state, committed)
        last = leader.step + 1 == len(program(seen, rules))
        yield name, after, idle if last else forward


def _effect(
    state: State, leader: Leader, step: str, rules: Rules
) -> Iterator[tuple[str, State, Leader | None]]:
    seen = leader.seen
    assert seen is not None
    name = f"{seen.operation}: {step}"
    outcome = runtime.apply(state, leader, step, rules)
    if isinstance(outcome, str):
        yield f"{name} ({outcome})", state, leader._replace(doing="failed", failure=outcome)
        return
    token = (seen.op_seq, leader.epoch)
    after = state._replace(
        resources=outcome, problem=state.problem or broken_by_effect(state, outcome, token)
    )
    yield name, after, leader._replace(step=leader.step + 1)
    budget = state.budget
    if budget.failures and step not in ("look for archives", "end job"):
        spent = state._replace(budget=budget._replace(failures=budget.failures - 1))
        failed = leader._replace(doing="failed", failure="CONTAINER_START_FAILED")
        yield f"{name} (fails before)", spent, failed
        if outcome != state.resources:
            half = runtime.half_done(state.resources, outcome, step)
            yield f"{name} (fails after)", spent._replace(resources=half), failed


def _await_job(state: State, leader: Leader, seen: Row) -> Iterator[tuple[str, State, Leader]]:
    job, token = state.resources.job, (seen.op_seq, leader.epoch)
    if job is not None and (job.op_seq, job.epoch) == token:
        return  # still at work
    name = f"{seen.operation}: hears of its job"
    key = runtime.committed_attempt(state.resources, seen.op_seq)
    done = key is not None if seen.operation is Operation.ARCHIVING else state.resources.restored_by == token
    if done:
        yield name, state, leader._replace(step=leader.step + 1, key=key)
    else:
        yield f"{name}'s end", state, leader._replace(doing="failed", failure="STORAGE_JOB_FAILED")


def expire(state: State, leader: Leader, rules: Rules) -> Iterator[tuple[str, State, Leader]]:
    """The action hangs for longer than its timeout: the plan says what follows."""
    if leader.doing != "acting" or not state.budget.timeouts or state.row.operation is Operation.NONE:
        return
    spent = state._replace(budget=state.budget._replace(timeouts=state.budget.timeouts - 1))
    match decisions.decide_past_timeout(state.row, rules):
        case Expire():
            failure = GIVEN_UP if state.row.operation is Operation.ARCHIVING else "failed"
            yield (
                f"{state.row.operation} expires",
                spent,
                leader._replace(doing="ending", step=0, failure=failure),
            )
        case Fail(failure=failure):
            cut = leader._replace(doing="failed", failure=failure.failure)
            yield f"{state.row.operation} is cut", spent, cut


def _judge_failure(
    state: State, leader: Leader, seen: Row, rules: Rules
) -> Iterator[tuple[str, State, Leader]]:
    idle = Leader(leader.epoch)
    assert leader.failure is not None
    match decisions.judge_failure(seen, rules, leader.failure):
        case Drop():
            yield "drops its result", state, idle
        case GiveUp(error=error):
            yield "gives up", state, leader._replace(doing="ending", step=0, failure=decisions.name_of(error))
        case Release():
            yield "gives up for a while", state, leader._replace(doing="ending", step=0, failure=GIVEN_UP)
        case Retry(error=error):
            if not _may_write(state, leader, seen, rules):
                yield "writes its failure (refused)", state, idle
                return
            row = decisions.failed_once(state.row, seen, rules, error)
            yield "writes its failure", _written(state, row), idle


def _end(state: State, leader: Leader, seen: Row, rules: Rules) -> Iterator[tuple[str, State, Leader]]:
    """Going terminal: first the storage job is confirmed gone, then one write."""
    idle = Leader(leader.epoch)
    if leader.step == 0 and rules.confirm_gone:
        outcome = runtime.apply(state, leader, "end job", rules)
        if isinstance(outcome, str):
            yield "cannot confirm that the job is gone", state, idle
        else:
            yield "confirms the job gone", state._replace(resources=outcome), leader._replace(step=1)
        return
    if not _may_write(state, leader, seen, rules):
        yield "goes terminal (refused)", state, idle
        return
    row = state.row._replace(operation=Operation.NONE, error=leader.failure, acted=False, fresh=False)
    if leader.failure == GIVEN_UP and decisions.view(seen, rules).volume_is_trusted:
        row = row._replace(restore_from=None if row.restore_from == seen.restore_from else row.restore_from)
        row = row._replace(snapshot=row.snapshot and not seen.snapshot)
    if leader.failure == GIVEN_UP:
        row = row._replace(keeps=False)
    yield "goes terminal", _written(state, row), idle


def _may_write(state: State, leader: Leader, seen: Row, rules: Rules) -> bool:
    """The fence of every write of an operation: the term, the op_id and the operation."""
    if not rules.fenced_writes:
        return True
    row = state.row
    return leader.epoch == state.leader.epoch and (row.op_seq, row.operation) == (seen.op_seq, seen.operation)


def _as_planned(state: State, leader: Leader, seen: Row, rules: Rules) -> bool:
    """The compare-and-set of a claim: still free, and as the plan saw it."""
    if rules.fenced_writes and leader.epoch != state.leader.epoch:
        return False
    return state.row == seen


def _written(state: State, row: Row) -> State:
    """A look that had begun before says nothing about an action that ends, or begins again, after it."""
    look = state.look._replace(fresh=False) if state.look is not None else None
    return state._replace(row=row, look=look, shown=state.shown and row.acted)


def _acted(state: State, row: Row) -> State:
    after = _written(state, row)
    return after._replace(shown=target_is_shown(after))
