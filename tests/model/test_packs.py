"""Packs through every order of steps: jobs that reuse them, a sweep, crashes anywhere, a listing that lags.

A small model of ``archives/incremental`` and ``coordinators/pack_sweep``: all reachable states within a few jobs and
looks are visited, breadth first. The invariant is contract 8 for packs: whatever has a meta has all its packs. Each
planted bug must break it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple
from uuid import UUID

import pytest

from codehub.domain.retention import Owner, may_sweep_packs_of

JOBS = 3
LOOKS = 4
ANYBODY = UUID(int=1)


class Manifest(NamedTuple):
    number: int
    packs: frozenset[int]
    committed: bool


class Job(NamedTuple):
    phase: str
    number: int
    reused: frozenset[int]


class Look(NamedTuple):
    phase: str  # listed, then the operation was read, then the manifests: due is what is swept
    listed: frozenset[int]
    due: frozenset[int] = frozenset()


@dataclass(frozen=True)
class State:
    jobs_left: int = JOBS
    looks_left: int = LOOKS
    packs: frozenset[int] = frozenset()
    manifests: frozenset[Manifest] = frozenset()
    fresh: frozenset[int] = frozenset()  # manifests that a listing may not show yet
    current: int = -1
    in_operation: bool = False
    job: Job | None = None
    look: Look | None = None
    seen: frozenset[int] = field(default=frozenset())

    def manifest(self, number: int) -> Manifest | None:
        return next((each for each in self.manifests if each.number == number), None)


@dataclass(frozen=True)
class Rules:
    """What the product does; a planted bug turns one off."""

    grace: bool = True
    heeds_operation: bool = True
    proves_packs: bool = True
    packs_first: bool = True


def next_states(state: State, rules: Rules) -> Iterator[State]:
    yield from _job_steps(state, rules)
    yield from _look_steps(state, rules)
    busy = state.job.number if state.job is not None else -1
    for each in state.manifests:  # the GC, or the leader before it, removes an older generation or debris
        if each.number not in (state.current, busy):
            yield replace(state, manifests=state.manifests - {each})


def _job_steps(state: State, rules: Rules) -> Iterator[State]:
    job = state.job
    if job is None:
        if state.jobs_left and not state.in_operation:
            begun = Job("begun", JOBS - state.jobs_left, frozenset())
            yield replace(state, job=begun, in_operation=True, jobs_left=state.jobs_left - 1)
        return
    yield replace(state, job=None, in_operation=False)  # killed, confirmed gone, given up
    match job.phase:
        case "begun":
            base = state.manifest(state.current)
            known = base.packs if base is not None and base.committed else frozenset()
            reused = known & state.packs if rules.proves_packs else state.packs
            yield replace(state, job=Job("read", job.number, reused))
        case "read":
            yield _put_packs(state, job) if rules.packs_first else _put_meta(_put_manifest(state, job), job)
        case "packed":
            yield _put_manifest(state, job)
        case "named" if not rules.packs_first:
            yield state
        case "named":  # every pack must be there, right before the meta
            manifest = state.manifest(job.number)
            assert manifest is not None
            if manifest.packs <= state.packs or not rules.proves_packs:
                yield replace(state, job=job._replace(phase="checked"))
            else:
                yield replace(state, job=None, in_operation=False, manifests=state.manifests - {manifest})
        case "checked":
            yield _put_meta(state, job)
        case "committed":
            if not rules.packs_first:
                state = _put_packs(state, job)
            yield replace(state, job=None, in_operation=False, current=job.number)


def _put_packs(state: State, job: Job) -> State:
    return replace(state, packs=state.packs | {job.number}, job=job._replace(phase="packed"))


def _put_manifest(state: State, job: Job) -> State:
    made = Manifest(job.number, job.reused | {job.number}, committed=False)
    return replace(
        state,
        manifests=state.manifests | {made},
        fresh=state.fresh | {job.number},
        job=job._replace(phase="named"),
    )


def _put_meta(state: State, job: Job) -> State:
    manifest = state.manifest(job.number)
    assert manifest is not None
    rest = state.manifests - {manifest}
    return replace(
        state, manifests=rest | {manifest._replace(committed=True)}, job=job._replace(phase="committed")
    )


def _look_steps(state: State, rules: Rules) -> Iterator[State]:
    look = state.look
    if look is None:
        if state.looks_left:
            yield replace(state, look=Look("listed", state.packs), looks_left=state.looks_left - 1)
        return
    yield replace(state, look=None)  # killed; what was seen is in the database
    match look.phase:
        case "listed":
            owner = Owner(ANYBODY, False, False, None, ANYBODY, True, in_operation=state.in_operation)
            if may_sweep_packs_of(owner) or not rules.heeds_operation:
                yield replace(state, look=look._replace(phase="asked"))
            else:
                yield replace(state, look=None, seen=frozenset())
        case "asked":
            for shown in (
                state.manifests,
                {each for each in state.manifests if each.number not in state.fresh},
            ):
                if state.current >= 0 and all(each.number != state.current for each in shown):
                    yield replace(state, look=None, seen=frozenset())  # in doubt
                    continue
                unnamed = look.listed.difference(*(each.packs for each in shown))
                due = unnamed & state.seen if rules.grace else unnamed
                swept = look._replace(phase="swept", due=due)
                yield replace(state, look=swept, seen=unnamed, fresh=frozenset())
        case "swept":
            yield replace(state, look=None, packs=state.packs - look.due)


def find_broken(rules: Rules) -> State | None:
    """The first state in which a generation with a meta lacks a pack; None if there is none."""
    known, border = {State()}, [State()]
    while border:
        following = []
        for state in border:
            for each in next_states(state, rules):
                if any(
                    manifest.committed and not manifest.packs <= each.packs for manifest in each.manifests
                ):
                    return each
                if each not in known:
                    known.add(each)
                    following.append(each)
        border = following
    assert len(known) > 10_000, "a model in which little happens proves little"
    return None


def test_whatever_has_a_meta_has_all_its_packs() -> None:
    assert find_broken(Rules()) is None


@pytest.mark.parametrize(
    "bug",
    [
        pytest.param(Rules(grace=False), id="a sweep without grace"),
        pytest.param(Rules(heeds_operation=False), id="a sweep during an operation"),
        pytest.param(Rules(proves_packs=False), id="reuse of a pack that was merely listed"),
        pytest.param(Rules(packs_first=False), id="the manifest before its packs"),
    ],
)
def test_a_planted_bug_breaks_it(bug: Rules) -> None:
    assert find_broken(bug) is not None
