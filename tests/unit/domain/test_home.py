"""``home_ctx``: when a volume is marked, when trust is given and when it is taken away."""

import pytest

from codehub.domain import home
from codehub.domain.states import ObservedStatus, Operation
from codehub.domain.workspace import HomeContext

from .builders import KEY, NOW, TRUSTED, in_flight, workspace

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
    after = home.at_archive_commit(TRUSTED, sizes={"bytes": 7})
    assert (after.volume, after.restore_marker, after.sizes) == (False, None, {"bytes": 7})


def test_a_complete_restore_vouches_for_its_archive() -> None:
    after = home.at_restored(HomeContext(), archive_key=KEY)
    assert (after.restore_marker, after.volume) == (KEY, False)


@pytest.mark.parametrize("operation", [O.PROVISIONING, O.RESTORING])
def test_a_completed_home_is_marked(operation: Operation) -> None:
    assert home.at_completion(in_flight(operation), now=NOW).volume is True


@pytest.mark.parametrize("operation", [O.STOPPING, O.ARCHIVING, O.DELETING])
@pytest.mark.parametrize("mark", [False, True])
def test_other_completions_leave_the_mark(operation: Operation, mark: bool) -> None:
    view = in_flight(operation, home=HomeContext(volume=mark))
    assert home.at_completion(view, now=NOW).volume is mark


@pytest.mark.parametrize("observed", ObservedStatus)
def test_recovery_clears_the_mark_only_of_a_volume_that_vanished(observed: ObservedStatus) -> None:
    after = home.at_recovery(workspace(observed_status=observed, archive_key=KEY, home=TRUSTED))
    assert after.volume is (observed is not ObservedStatus.PENDING)
    assert after.restore_marker == KEY


def test_recovery_invents_no_mark() -> None:
    assert home.at_recovery(workspace(home=HomeContext())).volume is False
