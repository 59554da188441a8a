"""One tick as a table: which rows become which transitions, and who gets the free slots."""

from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

import pytest

from codehub.domain import plan as plan_module
from codehub.domain.plan import Attempt
from codehub.domain.states import DesiredState, HealthStatus, ObservedStatus, Operation
from codehub.domain.tick_plan import (
    BeginOperation,
    CompleteOperation,
    ExpireAction,
    FailAction,
    HaltWorkspace,
    Lane,
    MarkHome,
    RecordCrash,
    RunAction,
    Slots,
    Transition,
    Unplannable,
    lane_of,
    plan_tick,
)
from codehub.domain.workspace import HomeContext, WorkspaceView

from .builders import KEY, NOW, POLICY, in_flight, minutes, seconds, workspace

D, S, O = DesiredState, ObservedStatus, Operation  # noqa: E741

PLENTY = Slots(free={Lane.CONTROL: 10, Lane.STORAGE: 10})
ACTED_AT = NOW - seconds(5)


def numbered(number: int, ws: WorkspaceView) -> WorkspaceView:
    return replace(ws, id=UUID(int=number, version=4))


def tick(*rows: WorkspaceView, slots: Slots = PLENTY, **attempts: Attempt) -> list[Transition]:
    """Rows get the ids 1, 2, …; ``attempts`` are named ``ws1``, ``ws2``, …"""
    named = [numbered(number, ws) for number, ws in enumerate(rows, start=1)]
    known = {UUID(int=int(name[2:]), version=4): attempt for name, attempt in attempts.items()}
    return list(plan_tick(named, now=NOW, policy=POLICY, slots=slots, attempts=known))


def numbers(transitions: list[Transition]) -> list[int]:
    return [each.workspace.id.int & 0xFFFF for each in transitions]


def acted(operation: Operation, **fields: Any) -> WorkspaceView:
    return in_flight(operation, **({"op_acted_at": ACTED_AT} | fields))


WANTS_START = workspace(desired_state=D.RUNNING)
WANTS_ARCHIVE = workspace(desired_state=D.PENDING)
STARTED = acted(O.STARTING, observed_status=S.RUNNING, desired_state=D.RUNNING)
PROVISIONED = acted(O.PROVISIONING, observed_status=S.STANDBY, desired_state=D.RUNNING, home=HomeContext())
VANISHED = workspace(observed_status=S.PENDING)
UNMARKED = workspace(home=HomeContext())
NEVER_SHOWED = acted(
    O.STARTING, observed_status=S.STANDBY, desired_state=D.RUNNING, op_acted_at=NOW - minutes(1)
)
CRASHED = workspace(
    desired_state=D.RUNNING, home=HomeContext(volume=True, ran_at=NOW - seconds(3)), observed_at=NOW
)


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        (workspace(), None),
        (WANTS_START, BeginOperation),
        (WANTS_ARCHIVE, BeginOperation),
        (in_flight(O.STARTING), RunAction),
        (STARTED, CompleteOperation),
        (VANISHED, HaltWorkspace),
        (UNMARKED, MarkHome),
        (NEVER_SHOWED, FailAction),
        (CRASHED, RecordCrash),
    ],
    ids=lambda value: getattr(value, "__name__", "") if isinstance(value, type) else "",
)
def test_each_kind_of_row_becomes_one_transition(row: WorkspaceView, kind: type | None) -> None:
    assert [type(each) for each in tick(row)] == ([kind] if kind else [])


def test_an_action_over_its_timeout_expires() -> None:
    hanging = Attempt(acting=True, started_at=NOW - minutes(6))
    assert [type(each) for each in tick(in_flight(O.STARTING), ws1=hanging)] == [ExpireAction]


def test_an_action_that_runs_is_left_alone() -> None:
    assert tick(in_flight(O.STARTING), ws1=Attempt(acting=True, started_at=NOW - seconds(3))) == []


def test_an_action_of_an_earlier_operation_ends_before_the_next_begins() -> None:
    assert tick(WANTS_START, ws1=Attempt(acting=True)) == []


def test_the_next_step_of_a_walk_begins_with_the_completion() -> None:
    (done,) = tick(PROVISIONED)
    assert isinstance(done, CompleteOperation)
    assert (done.after.operation, done.after.home.volume) == (O.NONE, True)
    assert done.next_operation is O.STARTING


def test_a_completed_workspace_in_error_does_not_go_on() -> None:
    (done,) = tick(replace(PROVISIONED, health_status=HealthStatus.ERROR))
    assert isinstance(done, CompleteOperation)
    assert done.next_operation is None


def test_a_marked_home_goes_on_at_once() -> None:
    (mark,) = tick(replace(UNMARKED, desired_state=D.RUNNING))
    assert isinstance(mark, MarkHome)
    assert (mark.after.home.volume, mark.next_operation) == (True, O.STARTING)


@pytest.mark.parametrize("known_by", ["row", "leader"])
def test_the_end_of_an_action_counts_from_the_row_or_from_this_leader(known_by: str) -> None:
    in_row: datetime | None = ACTED_AT if known_by == "row" else None
    own = Attempt(acted_at=ACTED_AT if known_by == "leader" else None, ended_at=ACTED_AT)
    (done,) = tick(replace(STARTED, op_acted_at=in_row), ws1=own)
    assert isinstance(done, CompleteOperation)
    assert done.workspace.op_acted_at == ACTED_AT  # what the completion writes


class TestSlots:
    def test_lanes_do_not_share(self) -> None:
        slots = Slots(free={Lane.CONTROL: 0, Lane.STORAGE: 1})
        found = tick(WANTS_START, WANTS_ARCHIVE, WANTS_ARCHIVE, slots=slots)
        assert numbers(found) == [2]

    def test_slots_go_to_running_operations_then_walks_then_new_ones(self) -> None:
        rows = (WANTS_START, PROVISIONED, in_flight(O.STARTING), WANTS_START)
        took = []
        for free in range(5):
            found = tick(*rows, slots=Slots(free={Lane.CONTROL: free, Lane.STORAGE: 0}))
            began = [each for each in found if isinstance(each, RunAction | BeginOperation)]
            went_on = [
                each
                for each in found
                if isinstance(each, CompleteOperation) and each.next_operation is not None
            ]
            took.append(sorted(numbers([*began, *went_on])))
        assert took == [[], [3], [2, 3], [1, 2, 3], [1, 2, 3, 4]]

    def test_a_completion_needs_no_slot(self) -> None:
        (done,) = tick(PROVISIONED, slots=Slots(free={}))
        assert isinstance(done, CompleteOperation)
        assert done.next_operation is None

    @pytest.mark.parametrize("operation", [each for each in O if each is not O.NONE])
    def test_nothing_begins_while_its_backend_is_away(self, operation: Operation) -> None:
        away = replace(PLENTY, available=frozenset(O) - {operation})
        rows = [
            WANTS_START,
            WANTS_ARCHIVE,
            workspace(desired_state=D.STANDBY, observed_status=S.RUNNING),
            workspace(desired_state=D.RUNNING, observed_status=S.PENDING, home=HomeContext()),
            workspace(
                desired_state=D.RUNNING, observed_status=S.PENDING, home=HomeContext(), archive_key=KEY
            ),
            workspace(deleted_at=NOW),
            in_flight(operation),
        ]
        touched = {
            each.operation if isinstance(each, BeginOperation) else each.workspace.operation
            for each in tick(*rows, slots=away)
        }
        assert touched == frozenset(O) - {operation, O.NONE}

    def test_without_a_fresh_observation_nothing_is_claimed_and_nothing_times_out(self) -> None:
        blind = replace(PLENTY, observed=False)
        hanging = Attempt(acting=True, started_at=NOW - minutes(6))
        found = tick(
            WANTS_START, in_flight(O.STARTING), PROVISIONED, in_flight(O.STARTING), slots=blind, ws4=hanging
        )
        assert [type(each) for each in found] == [RunAction, CompleteOperation]
        assert all(each.next_operation is None for each in found if isinstance(each, CompleteOperation))


def test_transitions_keep_the_order_of_rows() -> None:
    assert numbers(tick(VANISHED, WANTS_START, STARTED, CRASHED, in_flight(O.STOPPING))) == [1, 2, 3, 4, 5]


def test_a_row_that_cannot_be_planned_stops_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    original = plan_module._plan_step

    def fails_for_archives(ws: WorkspaceView, **rest: Any) -> plan_module.Decision:
        if ws.desired_state is D.PENDING:
            raise ValueError("a bug")
        return original(ws, **rest)

    monkeypatch.setattr(plan_module, "_plan_step", fails_for_archives)
    assert [type(each) for each in tick(WANTS_ARCHIVE, WANTS_START)] == [Unplannable, BeginOperation]


def test_storage_operations_have_their_own_lane() -> None:
    assert {each for each in O if lane_of(each) is Lane.STORAGE} == {O.ARCHIVING, O.RESTORING}
