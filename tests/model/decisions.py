"""The product's decisions, asked about a row of the model.

A rule that is switched off is taken from what the product gets to see (or from what is kept of its
answer); the product itself always runs as it is.
"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from uuid import UUID

from codehub.domain import home
from codehub.domain.errors import EffectError, ErrorInfo, FailureCode, Reason
from codehub.domain.generations import ChosenArchive
from codehub.domain.plan import Attempt, Decision, Halt, Mark, SwitchArchive, plan
from codehub.domain.policy import Consequence, ErrorPolicy, after_failure
from codehub.domain.snapshots import WantedSnapshot
from codehub.domain.states import HealthStatus, Operation
from codehub.domain.workspace import HomeContext, WorkspaceView
from tests.model.rules import Rules
from tests.model.state import Row

POLICY = ErrorPolicy(max_retries=1)  # one retry shows as much as three, in fewer states

CLAIMED_AT = datetime(2030, 1, 1, tzinfo=UTC)
ACTED_AT = CLAIMED_AT + timedelta(seconds=10)
STALE_LOOK_AT = ACTED_AT - timedelta(seconds=5)
FRESH_LOOK_AT = ACTED_AT + timedelta(seconds=60)  # late enough that a missing effect counts as missing
NOW = CLAIMED_AT + timedelta(seconds=120)  # within every timeout, after every pause
MUCH_LATER = CLAIMED_AT + timedelta(hours=2)  # past every timeout

_ID = UUID(int=1)


@cache
def view(row: Row, rules: Rules) -> WorkspaceView:
    """The row as the product reads it."""
    return WorkspaceView(
        id=_ID,
        owner_id=_ID,
        desired_state=row.desired,
        observed_status=row.observed,
        health_status=HealthStatus.ERROR if row.health_error else HealthStatus.OK,
        operation=row.operation,
        last_access_at=CLAIMED_AT,
        observed_at=FRESH_LOOK_AT if row.fresh or not rules.freshness else STALE_LOOK_AT,
        op_id=UUID(int=row.op_seq),
        op_seq=row.op_seq,
        op_started_at=CLAIMED_AT,
        op_acted_at=ACTED_AT if row.acted else None,
        archive_key=row.archive_key,
        error_count=row.error_count,
        error_info=_error_info(row),
        home=HomeContext(
            restore_marker=row.marker if rules.trust else row.archive_key,
            volume=row.mark and rules.volume_mark,
            archive_retry_at=MUCH_LATER if row.given_up else None,
            keeps_volume=row.keeps,
        ),
        restore_from=ChosenArchive(row.restore_from, CLAIMED_AT) if row.restore_from else None,
        snapshot_as=WantedSnapshot(_ID, "kept", CLAIMED_AT) if row.snapshot else None,
        deleted_at=CLAIMED_AT if row.deleted else None,
    )


@cache
def decide(row: Row, rules: Rules) -> Decision:
    """What the product's plan says to a leader that is doing nothing."""
    seen = view(row, rules)
    decision = plan(seen, now=NOW, policy=POLICY)
    if seen.restore_from is not None and not rules.archive_before_return and row.observed == "STANDBY":
        asleep = row.operation is Operation.NONE and not (row.terminal or row.deleted)
        return SwitchArchive(seen.restore_from) if asleep else decision
    if isinstance(decision, Mark) and not (rules.mark_what_is_there and rules.volume_mark):
        return plan(replace(seen, home=home.marked(seen.home)), now=NOW, policy=POLICY)  # and nobody wrote it
    return decision


@cache
def decide_past_timeout(row: Row, rules: Rules) -> Decision:
    """What it says of an action that has been running for longer than any timeout."""
    acting = Attempt(acting=True, started_at=CLAIMED_AT)
    return plan(view(row, rules), now=MUCH_LATER, policy=POLICY, attempt=acting)


@cache
def judge_failure(row: Row, rules: Rules, failure: str) -> Consequence:
    return after_failure(view(row, rules), EffectError(FailureCode(failure), "words"), now=NOW, policy=POLICY)


@cache
def claimed(row: Row, operation: Operation, rules: Rules) -> Row:
    """The row once ``operation`` is claimed."""
    kept = home.at_claim(view(row, rules), operation)
    return row._replace(
        operation=operation,
        op_seq=row.op_seq + 1,
        acted=False,
        fresh=False,
        error_count=0,
        marker=kept.restore_marker if rules.clear_marker else row.marker,
        mark=kept.volume,
        keeps=kept.keeps_volume,
    )


@cache
def completed(row: Row, seen: Row, rules: Rules) -> Row:
    """The row once the operation is complete; the home comes from the snapshot, as in the product."""
    kept = home.at_completion(view(seen, rules), now=NOW)
    return row._replace(
        operation=Operation.NONE,
        acted=False,
        fresh=False,
        error_count=0,
        error=None,
        marker=kept.restore_marker if rules.trust else seen.marker,
        mark=kept.volume,
        keeps=kept.keeps_volume,
    )


def marked(row: Row, seen: Row) -> Row:
    return row._replace(mark=home.marked(_home(seen)).volume)


def switched(row: Row, seen: Row, rules: Rules) -> Row:
    chosen = view(seen, rules).restore_from
    assert chosen is not None
    kept = home.at_switch(view(seen, rules), chosen)
    return row._replace(
        archive_key=chosen.archive_key,
        marker=kept.restore_marker,
        mark=kept.volume,
        restore_from=None if rules.return_once else row.restore_from,
    )


def chosen(row: Row, key: str, rules: Rules) -> Row:
    """The row once a person chose an archive: an error that archives are for is lifted."""
    lifted = row
    if row.error is not None and (row.terminal or row.given_up):
        kept = home.at_choice(view(row, rules))
        lifted = row._replace(error=None, error_count=0, mark=kept.volume)
    return lifted._replace(restore_from=key)


def restored(row: Row, seen: Row) -> Row:
    assert seen.archive_key is not None
    kept = home.at_restored(_home(seen), archive_key=seen.archive_key)
    return row._replace(marker=kept.restore_marker, mark=kept.volume, acted=True, fresh=False)


def archive_committed(row: Row, seen: Row, key: str, rules: Rules) -> Row:
    at_commit = home.at_snapshot_commit if seen.keeps else home.at_archive_commit
    kept = at_commit(_home(seen), archive_key=key, sha256=key, sizes={})
    committed = row._replace(
        archive_key=key,
        marker=kept.restore_marker,
        mark=kept.volume,
        snapshot=row.snapshot and not rules.snapshot_once,
    )
    return committed._replace(acted=True, fresh=False) if seen.keeps else committed


def failed_once(row: Row, seen: Row, rules: Rules, error: ErrorInfo) -> Row:
    """The row once a failed execution is counted: the action runs again."""
    kept = home.at_failure(replace(view(seen, rules), home=_home(seen)))
    return row._replace(
        error="retrying",
        error_count=error.error_count if row.operation is not Operation.DELETING else 1,
        acted=False,
        fresh=False,
        marker=kept.restore_marker if rules.restart_untrusted else row.marker,
        mark=kept.volume,
    )


def recovered(row: Row, rules: Rules) -> Row:
    kept = home.at_recovery(view(row, rules))
    mark = kept.volume if rules.accept_loss_when_told else row.mark and row.observed != "PENDING"
    return row._replace(error=None, error_count=0, mark=mark)


def returned_to_archive(row: Row, rules: Rules) -> Row:
    kept = home.at_return_to_archive(view(row, rules))
    marker = kept.restore_marker if rules.untrust_what_is_given_up else row.marker
    return row._replace(error=None, error_count=0, marker=marker, mark=kept.volume)


def name_of(error: ErrorInfo) -> str:
    """The word the model keeps of a terminal error."""
    if error.context.get("code") == FailureCode.ARCHIVE_UNEXPECTED:
        return "unexpected"
    return "failed"


def _home(row: Row) -> HomeContext:
    return HomeContext(restore_marker=row.marker, volume=row.mark)


@cache
def _error_info(row: Row) -> ErrorInfo | None:
    match row.error:
        case None:
            return None
        case "vanished":  # exactly what the product wrote when it halted
            halted = plan(
                replace(
                    view(Row(), Rules()), observed_status=row.observed.PENDING, home=HomeContext(volume=True)
                ),
                now=NOW,
                policy=POLICY,
            )
            assert isinstance(halted, Halt)
            return halted.error
        case word:
            return ErrorInfo(
                reason=Reason.ACTION_FAILED,
                message=word,
                is_terminal=row.terminal,
                operation=row.operation,
                error_count=row.error_count,
                occurred_at=NOW,
            )
