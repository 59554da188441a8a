"""Returning to an earlier archive: what the plan does from each state, and what the row remembers."""

from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

import pytest

from codehub.domain import home
from codehub.domain.errors import ErrorInfo, FailureCode, Reason
from codehub.domain.generations import REMEMBERED, ChosenArchive, Generation, left_within, with_latest
from codehub.domain.plan import Claim, Decision, Halt, Mark, Skip, SwitchArchive, plan
from codehub.domain.policy import ErrorPolicy
from codehub.domain.states import DesiredState, HealthStatus, ObservedStatus, Operation
from codehub.domain.workspace import HomeContext, WorkspaceView

NOW = datetime(2030, 1, 1, tzinfo=UTC)
CHOSEN = ChosenArchive("older", NOW, "sum")
TRUSTED = HomeContext(volume=True, restore_marker="current", archived_key="current", archive_sha256="c")
GONE = HomeContext(archived_key="current", archive_sha256="c")

PENDING, STANDBY, RUNNING = ObservedStatus.PENDING, ObservedStatus.STANDBY, ObservedStatus.RUNNING


def workspace(observed: ObservedStatus, kept: HomeContext, **columns: object) -> WorkspaceView:
    ws = WorkspaceView(
        id=UUID(int=1),
        owner_id=UUID(int=2),
        desired_state=DesiredState.RUNNING,
        observed_status=observed,
        health_status=HealthStatus.OK,
        operation=Operation.NONE,
        last_access_at=NOW,
        observed_at=NOW,
        archive_key="current",
        home=kept,
        restore_from=CHOSEN,
    )
    return replace(ws, **columns)  # type: ignore[arg-type]


def error(operation: Operation, code: FailureCode = FailureCode.CHECKSUM_MISMATCH) -> ErrorInfo:
    return ErrorInfo(Reason.DATA_LOST, "no", True, operation, 1, NOW, {"code": code})


@pytest.mark.parametrize("desired", DesiredState)
@pytest.mark.parametrize(
    ("observed", "kept", "decision"),
    [
        (RUNNING, TRUSTED, Claim(Operation.STOPPING)),
        (STANDBY, TRUSTED, Claim(Operation.ARCHIVING)),
        (
            STANDBY,
            replace(TRUSTED, archive_retry_at=datetime.max.replace(tzinfo=UTC)),
            Claim(Operation.ARCHIVING),
        ),
        (STANDBY, replace(TRUSTED, volume=False), Mark()),
        (STANDBY, GONE, SwitchArchive(CHOSEN)),
        (PENDING, GONE, SwitchArchive(CHOSEN)),
    ],
)
def test_the_present_home_is_archived_before_the_switch(
    desired: DesiredState, observed: ObservedStatus, kept: HomeContext, decision: Decision
) -> None:
    ws = workspace(observed, kept, desired_state=desired)
    assert plan(ws, now=NOW, policy=ErrorPolicy()) == decision


def test_what_goes_above_a_return() -> None:
    policy = ErrorPolicy()
    deleted = workspace(STANDBY, TRUSTED, deleted_at=NOW)
    assert plan(deleted, now=NOW, policy=policy) == Claim(Operation.DELETING)
    broken = workspace(STANDBY, TRUSTED, error_info=error(Operation.STOPPING))
    assert isinstance(plan(broken, now=NOW, policy=policy), Skip)
    vanished = workspace(PENDING, TRUSTED)
    assert isinstance(plan(vanished, now=NOW, policy=policy), Halt)


def test_a_switch_binds_the_chosen_archive_and_remembers_the_one_before() -> None:
    kept = home.at_switch(workspace(PENDING, GONE), CHOSEN)
    assert (kept.restore_marker, kept.volume) == (None, False)
    assert (kept.archived_key, kept.archive_sha256, kept.archived_at) == ("older", "sum", NOW)
    assert kept.generations == (Generation("older", "sum"), Generation("current", "c", left=0))
    again = home.at_archive_commit(kept, archive_key="new", sha256="n", sizes={})
    assert left_within(again.generations, 2) == {"current"}
    assert left_within(again.generations, 1) == frozenset()


def test_a_row_remembers_a_bounded_number() -> None:
    remembered: tuple[Generation, ...] = ()
    for number in range(REMEMBERED + 5):
        remembered = with_latest(remembered, Generation(str(number)))
    assert (len(remembered), remembered[0].archive_key) == (REMEMBERED, str(REMEMBERED + 4))
    kept = HomeContext(generations=remembered, return_given_up="no")
    assert HomeContext.from_json(kept.as_json()) == kept
    assert ChosenArchive.from_json(CHOSEN.as_json()) == CHOSEN


def test_a_damaged_archive_is_named_until_a_restore_succeeds() -> None:
    lost = workspace(PENDING, GONE, error_info=error(Operation.RESTORING), restore_from=None)
    kept = home.at_choice(lost)
    assert kept.generations == (Generation("current", "c", damaged=True),)
    assert home.at_restored(kept, archive_key="current").generations == (Generation("current", "c"),)


@pytest.mark.parametrize(
    ("info", "allowed"),
    [
        (None, True),
        (error(Operation.RESTORING), True),
        (error(Operation.STARTING), True),
        (error(Operation.PROVISIONING), True),
        (error(Operation.STARTING, FailureCode.VOLUME_USED_ELSEWHERE), False),
        (error(Operation.STOPPING), False),
        (error(Operation.NONE, FailureCode.VOLUME_MISSING), False),
    ],
)
def test_which_errors_an_earlier_archive_is_for(info: ErrorInfo | None, allowed: bool) -> None:
    assert workspace(STANDBY, TRUSTED, error_info=info).may_return is allowed
