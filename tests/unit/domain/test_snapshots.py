"""Snapshots: what the plan does from each state, what a commit makes of the row, and what the GC keeps."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from codehub.domain import completion, home
from codehub.domain.copies import CopySource
from codehub.domain.generations import ChosenArchive
from codehub.domain.plan import Claim, Complete, Decision, Mark, Skip, plan
from codehub.domain.policy import ErrorPolicy
from codehub.domain.retention import Owner, Protection, StoredAttempt, sort_archives
from codehub.domain.snapshots import Snapshot, WantedSnapshot, find, keys_of
from codehub.domain.states import DesiredState, HealthStatus, ObservedStatus, Operation
from codehub.domain.workspace import HomeContext, WorkspaceView

NOW = datetime(2030, 1, 1, tzinfo=UTC)
WANTED = WantedSnapshot(UUID(int=9), "before", NOW)
TRUSTED = HomeContext(volume=True, restore_marker="current", archived_key="current", archive_sha256="c")
PENDING, STANDBY, RUNNING = ObservedStatus.PENDING, ObservedStatus.STANDBY, ObservedStatus.RUNNING


def workspace(observed: ObservedStatus, desired: DesiredState, **columns: object) -> WorkspaceView:
    ws = WorkspaceView(
        id=UUID(int=1),
        owner_id=UUID(int=2),
        desired_state=desired,
        observed_status=observed,
        health_status=HealthStatus.OK,
        operation=Operation.NONE,
        last_access_at=NOW,
        observed_at=NOW,
        archive_key="current",
        home=TRUSTED,
        snapshot_as=WANTED,
    )
    return replace(ws, **columns)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("observed", "desired", "columns", "expected"),
    [
        (STANDBY, DesiredState.STANDBY, {}, Claim(Operation.ARCHIVING)),
        (STANDBY, DesiredState.RUNNING, {}, Claim(Operation.ARCHIVING)),  # then it is started
        (STANDBY, DesiredState.PENDING, {}, Claim(Operation.ARCHIVING)),  # which is the snapshot
        (RUNNING, DesiredState.RUNNING, {}, Skip("converged")),  # when it sleeps next
        (RUNNING, DesiredState.STANDBY, {}, Claim(Operation.STOPPING)),
        (PENDING, DesiredState.PENDING, {"home": HomeContext()}, Skip("converged")),
        (STANDBY, DesiredState.STANDBY, {"home": HomeContext()}, Claim(Operation.RESTORING)),
        (STANDBY, DesiredState.STANDBY, {"home": replace(TRUSTED, volume=False)}, Mark()),
        (STANDBY, DesiredState.RUNNING, {"deleted_at": NOW}, Claim(Operation.DELETING)),
    ],
)
def test_the_plan(
    observed: ObservedStatus, desired: DesiredState, columns: dict[str, object], expected: Decision
) -> None:
    assert plan(workspace(observed, desired, **columns), now=NOW, policy=ErrorPolicy()) == expected


@pytest.mark.parametrize(
    ("desired", "columns", "keeps"),
    [
        (DesiredState.STANDBY, {}, True),
        (DesiredState.RUNNING, {}, True),
        (DesiredState.PENDING, {}, False),
        (DesiredState.STANDBY, {"restore_from": ChosenArchive("older", NOW)}, False),
        (DesiredState.STANDBY, {"snapshot_as": None}, False),
        (
            DesiredState.STANDBY,
            {"home": HomeContext()},
            False,
        ),  # a volume that does not count is only removed
    ],
)
def test_the_claim_decides_whether_the_volume_stays(
    desired: DesiredState, columns: dict[str, object], keeps: bool
) -> None:
    ws = workspace(STANDBY, desired, **columns)
    assert home.at_claim(ws, Operation.ARCHIVING).keeps_volume is keeps
    assert home.at_claim(ws, Operation.STARTING).keeps_volume is False


def test_it_is_complete_when_the_volume_is_seen_after_the_commit() -> None:
    claimed = replace(TRUSTED, keeps_volume=True)
    ws = workspace(
        STANDBY, DesiredState.STANDBY, operation=Operation.ARCHIVING, home=claimed, op_started_at=NOW
    )
    assert not completion.is_complete(
        replace(ws, observed_at=NOW + timedelta(seconds=9))
    )  # nothing is committed
    kept = home.at_snapshot_commit(claimed, archive_key="new", sha256="n", sizes={"bytes": 1}, now=NOW)
    committed = replace(ws, home=kept, archive_key="new", op_acted_at=NOW, snapshot_as=None)
    assert committed.volume_is_trusted
    assert (kept.volume, committed.archive_sha256) == (True, "n")
    assert not completion.is_complete(committed)  # the look is as old as the commit
    seen = replace(committed, observed_at=NOW + timedelta(seconds=1))
    assert plan(seen, now=NOW + timedelta(seconds=1), policy=ErrorPolicy()) == Complete()
    assert not completion.is_complete(replace(seen, observed_status=PENDING))
    assert home.at_completion(seen, now=NOW).keeps_volume is False


def stored(number: int, workspace_id: int = 1) -> StoredAttempt:
    at = NOW + timedelta(hours=number)
    return StoredAttempt(str(number), UUID(int=workspace_id), UUID(int=number), committed=True, stored_at=at)


def owner(**columns: object) -> Owner:
    plain = Owner(UUID(int=1), False, False, "5", None, has_volume=True)
    return replace(plain, **columns)  # type: ignore[arg-type]


def test_the_gc_keeps_snapshots_and_they_take_no_place_among_the_newest() -> None:
    attempts = [stored(number) for number in range(1, 6)]
    found = sort_archives(attempts, {UUID(int=1): owner(snapshots=frozenset({"1", "4"}))}, keep_generations=2)
    assert found.protected == {
        "5": Protection.CURRENT,
        "4": Protection.SNAPSHOT,
        "3": Protection.GENERATION,
        "1": Protection.SNAPSHOT,
    }
    assert [each.key for each in found.orphans] == ["2"]


@pytest.mark.parametrize("deleted", [False, True])
def test_the_gc_keeps_what_a_copy_needs_whatever_became_of_its_source(deleted: bool) -> None:
    attempts = [stored(1), stored(2), stored(5)]
    owners = {UUID(int=1): owner(deleted=deleted, snapshots=frozenset({"2"}))}
    found = sort_archives(attempts, owners, keep_generations=1, copied={"1"})
    assert found.protected["1"] is Protection.COPIED
    assert ("2" in found.protected) is not deleted  # deleting a workspace deletes its snapshots


def test_a_copy_names_its_source_until_it_has_an_archive_of_its_own() -> None:
    source = CopySource(UUID(int=7), "theirs")
    ws = workspace(PENDING, DesiredState.PENDING, copy_of=source, archive_key="theirs")
    assert ws.archive_source_id == source.workspace_id
    assert replace(ws, archive_key="mine").archive_source_id is None
    assert CopySource.from_json(source.as_json()) == source


def test_json_there_and_back() -> None:
    made = Snapshot(UUID(int=3), "before", "key", NOW, sha256="s", sizes={"bytes": 4})
    assert Snapshot.from_json(made.as_json()) == made
    assert WantedSnapshot.from_json(WANTED.as_json()) == WANTED
    assert (find((made,), made.id), find((made,), WANTED.id)) == (made, None)
    assert keys_of((made,)) == {"key"}
