"""``home_ctx``: when a volume is marked, when trust is given and when it is taken away."""

from dataclasses import replace
from typing import Any

import pytest

from codehub.domain import home
from codehub.domain.errors import EffectError, FailureCode
from codehub.domain.observation import Broken, invariant_error
from codehub.domain.plan import Claim, Halt, plan
from codehub.domain.policy import GiveUp, after_failure
from codehub.domain.states import DesiredState, HealthStatus, ObservedStatus, Operation
from codehub.domain.workspace import HomeContext, WorkspaceView

from .builders import KEY, NOW, POLICY, TRUSTED, in_flight, workspace

O = Operation  # noqa: E741


def test_claiming_a_restore_takes_the_trust_away() -> None:
    """The same archive may be restored twice: an old marker would vouch for a half-made volume."""
    view = workspace(archive_key=KEY, home=TRUSTED)
    assert home.at_claim(view, O.RESTORING).restore_marker is None


@pytest.mark.parametrize("operation", [O.PROVISIONING, O.STARTING, O.STOPPING, O.ARCHIVING, O.DELETING])
def test_no_other_claim_touches_the_trust(operation: Operation) -> None:
    view = workspace(archive_key=KEY, home=TRUSTED)
    assert home.at_claim(view, operation).restore_marker == KEY


def test_committing_an_archive_clears_mark_and_marker_together() -> None:
    after = home.at_archive_commit(TRUSTED, archive_key="new", sha256="sum", sizes={"bytes": 7})
    assert (after.volume, after.restore_marker, after.sizes) == (False, None, {"bytes": 7})


def test_a_checksum_belongs_to_the_key_it_was_committed_with() -> None:
    after = home.at_archive_commit(TRUSTED, archive_key="new", sha256="sum", sizes={})
    assert workspace(archive_key="new", home=after).archive_sha256 == "sum"
    assert workspace(archive_key="an older generation", home=after).archive_sha256 is None
    assert HomeContext.from_json(after.as_json()) == after


def test_an_archive_is_dated_with_the_key_it_was_committed_with() -> None:
    after = home.at_archive_commit(TRUSTED, archive_key="new", sha256=None, sizes={}, now=NOW)
    assert workspace(archive_key="new", home=after).archived_at == NOW
    assert workspace(archive_key="an older generation", home=after).archived_at is None
    assert workspace(archive_key=None).archived_at is None
    assert HomeContext.from_json(after.as_json()) == after


def out_of_reach(**fields: Any) -> WorkspaceView:
    """A workspace whose start was given up because the node that has its home took it not."""
    failure = EffectError(FailureCode.HOME_NODE_UNAVAILABLE, "on node-1", node="node-1")
    view = workspace(archive_key=KEY, home=TRUSTED, desired_state=DesiredState.RUNNING)
    given_up = after_failure(replace(view, operation=O.STARTING), failure, now=NOW, policy=POLICY)
    assert isinstance(given_up, GiveUp), "waiting again would be the same wait"
    return replace(view, **{"error_info": given_up.error, "health_status": HealthStatus.ERROR, **fields})


def test_a_home_that_is_given_up_counts_no_more_and_its_archive_is_restored() -> None:
    view = out_of_reach()
    assert view.home_node_is_unavailable
    assert view.owner_may_lift_error, "the node may be back: its owner may try"
    kept = home.at_return_to_archive(view)
    assert (kept.restore_marker, kept.volume, kept.crashes) == (None, False, 0)
    after = replace(view, home=kept, error_info=None, health_status=HealthStatus.OK)
    assert not after.volume_is_trusted
    assert plan(after, now=NOW, policy=POLICY) == Claim(O.RESTORING)
    archived = replace(after, desired_state=DesiredState.PENDING)
    assert plan(archived, now=NOW, policy=POLICY) == Claim(O.ARCHIVING), "which only deletes the volume"


def test_recovering_alone_gives_no_home_up() -> None:
    view = out_of_reach()
    kept = home.at_recovery(view)
    assert (kept.restore_marker, kept.volume) == (KEY, True)


@pytest.mark.parametrize(
    "fields", [{"operation": O.STARTING}, {"observed_status": ObservedStatus.RUNNING}, {"error_info": None}]
)
def test_a_home_is_given_up_at_rest_only(fields: dict[str, Any]) -> None:
    assert not out_of_reach(**fields).home_node_is_unavailable


def test_a_complete_restore_vouches_for_its_archive() -> None:
    after = home.at_restored(HomeContext(), archive_key=KEY)
    assert (after.restore_marker, after.volume) == (KEY, False)


@pytest.mark.parametrize("operation", [operation for operation in O if operation is not O.NONE])
def test_a_restore_that_runs_again_is_vouched_for_by_nobody(operation: Operation) -> None:
    """It had ended well, its effect was not seen: running it again makes a half-made volume."""
    after = home.at_failure(in_flight(operation, archive_key=KEY, home=TRUSTED))
    assert after.restore_marker == (None if operation is O.RESTORING else KEY)
    assert after.volume is True


@pytest.mark.parametrize("operation", [O.PROVISIONING, O.RESTORING])
def test_a_completed_home_is_marked(operation: Operation) -> None:
    assert home.at_completion(in_flight(operation), now=NOW).volume is True


@pytest.mark.parametrize("operation", [O.STOPPING, O.ARCHIVING, O.DELETING])
@pytest.mark.parametrize("mark", [False, True])
def test_other_completions_leave_the_mark(operation: Operation, mark: bool) -> None:
    view = in_flight(operation, home=HomeContext(volume=mark))
    assert home.at_completion(view, now=NOW).volume is mark


@pytest.mark.parametrize("operation", [each for each in O if each is not O.NONE])
@pytest.mark.parametrize("mark", [False, True])
def test_no_claim_touches_the_mark(operation: Operation, mark: bool) -> None:
    assert home.at_claim(workspace(home=HomeContext(volume=mark)), operation).volume is mark


def test_a_home_that_was_seen_unmarked_is_marked_and_nothing_else_changes() -> None:
    unmarked = HomeContext(restore_marker=KEY, crashes=2)
    assert home.marked(unmarked) == replace(unmarked, volume=True)


class TestRecovery:
    """A person who was told that the volume vanished accepts it; nobody accepts what nobody was told."""

    def vanished(self) -> WorkspaceView:
        view = workspace(observed_status=ObservedStatus.PENDING, archive_key=KEY, home=TRUSTED)
        halted = plan(view, now=NOW, policy=POLICY)
        assert isinstance(halted, Halt)
        return replace(view, error_info=halted.error, health_status=HealthStatus.ERROR)

    def test_of_a_vanished_volume_clears_the_mark_and_nothing_else(self) -> None:
        assert home.at_recovery(self.vanished()) == replace(TRUSTED, volume=False)

    def test_before_the_observer_has_answered_accepts_nothing(self) -> None:
        """With health still OK the plan would go on from the old look, though the disk may be back."""
        view = replace(self.vanished(), health_status=HealthStatus.OK)
        assert home.at_recovery(view).volume is True

    @pytest.mark.parametrize("observed", [ObservedStatus.STANDBY, ObservedStatus.RUNNING])
    def test_a_volume_that_came_back_keeps_its_mark(self, observed: ObservedStatus) -> None:
        view = replace(self.vanished(), observed_status=observed)
        assert home.at_recovery(view).volume is True

    @pytest.mark.parametrize("observed", ObservedStatus)
    def test_of_any_other_error_leaves_the_mark(self, observed: ObservedStatus) -> None:
        """Even if the volume is gone by now: the plan then says so, and asks."""
        failed = EffectError(FailureCode.VOLUME_MISSING, "There is no volume to start on.")
        outcome = after_failure(in_flight(O.STARTING, error_count=3), failed, now=NOW, policy=POLICY)
        assert isinstance(outcome, GiveUp)
        view = workspace(observed_status=observed, archive_key=KEY, home=TRUSTED, error_info=outcome.error)
        assert home.at_recovery(view) == TRUSTED

    def test_of_a_container_without_volume_leaves_the_mark(self) -> None:
        error = invariant_error(Broken.NO_VOLUME, operation=O.NONE, error_count=0, now=NOW)
        view = workspace(observed_status=ObservedStatus.PENDING, home=TRUSTED, error_info=error)
        assert home.at_recovery(view).volume is True

    def test_invents_no_mark(self) -> None:
        assert home.at_recovery(workspace(home=HomeContext())).volume is False
