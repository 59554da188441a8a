"""What an operator is told disagrees, as a table: rows in trouble, strays, and what may be asked for."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from codehub.domain.errors import FailureCode, Reason
from codehub.domain.home import volume_vanished
from codehub.domain.states import HealthStatus, ObservedStatus, Operation
from codehub.domain.workspace import HomeContext, WorkspaceView
from codehub.services.findings import LONG_AFTER, REPAIRS, FindingKind, Repair, list_findings
from codehub.services.overview import Orphan, OrphanReason
from codehub.store.workspaces.records import WorkspaceRecord
from tests.unit.domain.builders import NOW, an_error, in_flight, seconds, workspace

STRAY = UUID("33333333-3333-4333-8333-333333333333")
KEY = f"{STRAY}/44444444-4444-4444-8444-444444444444/{'0' * 32}/home.tar.zst"


def record(view: WorkspaceView) -> WorkspaceRecord:
    return WorkspaceRecord(view, "thesis", "", "", [], False, NOW, NOW, "error")


def vanished(**fields: Any) -> WorkspaceView:
    gone = workspace(observed_status=ObservedStatus.PENDING, **fields)
    return workspace(
        observed_status=ObservedStatus.PENDING, error_info=volume_vanished(gone, now=NOW), **fields
    )


@pytest.mark.parametrize(
    ("view", "kind", "repairs"),
    [
        (workspace(), None, ()),
        (workspace(error_info=an_error(is_terminal=False)), None, ()),
        (workspace(error_info=an_error(is_terminal=True)), FindingKind.ERROR, (Repair.RECOVER,)),
        (workspace(health_status=HealthStatus.ERROR), FindingKind.ERROR, (Repair.RECOVER,)),
        (vanished(), FindingKind.VOLUME_VANISHED, (Repair.RETURN_TO_NEWEST, Repair.RECOVER)),
        (
            workspace(
                error_info=an_error(is_terminal=False, operation=Operation.ARCHIVING),
                home=HomeContext(volume=True, archive_retry_at=NOW + timedelta(hours=1)),
            ),
            FindingKind.ARCHIVING_GIVEN_UP,
            (Repair.RECOVER,),
        ),
        (in_flight(Operation.RESTORING), None, ()),
        (
            in_flight(Operation.RESTORING, op_started_at=NOW - LONG_AFTER - seconds(1)),
            FindingKind.LONG_OPERATION,
            (),
        ),
    ],
)
def test_rows_in_trouble(view: WorkspaceView, kind: FindingKind | None, repairs: tuple[Repair, ...]) -> None:
    found = list_findings([record(view)], [], now=NOW)
    assert [each.kind for each in found] == ([kind] if kind else [])
    assert [each.repairs for each in found] == ([repairs] if kind else [])


def test_an_operation_that_found_no_volume_is_not_a_vanished_home() -> None:
    error = an_error(
        is_terminal=True, reason=Reason.MISMATCH, context={"code": FailureCode.VOLUME_MISSING.value}
    )
    found = list_findings([record(workspace(error_info=error))], [], now=NOW)
    assert [each.kind for each in found] == [FindingKind.ERROR]


@pytest.mark.parametrize(
    ("orphan", "kind", "repairable"),
    [
        (Orphan("container", f"ws-{STRAY}"), FindingKind.UNKNOWN_CONTAINER, False),
        (Orphan("volume", f"ws-{STRAY}-home"), FindingKind.UNKNOWN_VOLUME, True),
        (Orphan("archive", KEY), FindingKind.UNKNOWN_ARCHIVE, True),
        (Orphan("archive", KEY, why=OrphanReason.ONLY_COPY), FindingKind.ONLY_COPY, True),
        (Orphan("archive", KEY, why=OrphanReason.EXPIRING), FindingKind.EXPIRING_ARCHIVE, False),
        (Orphan("volume", "pvc-of-a-cloud", why=OrphanReason.RETAINED), FindingKind.RETAINED_VOLUME, False),
    ],
)
def test_strays(orphan: Orphan, kind: FindingKind, repairable: bool) -> None:
    (found,) = list_findings([], [orphan, orphan] if repairable else [orphan], now=NOW)
    assert (found.kind, bool(found.repairs)) == (kind, repairable)
    if repairable:  # generations of one workspace are one decision
        assert found.workspace_id == STRAY


def test_what_a_person_must_decide_comes_first() -> None:
    orphans = [
        Orphan("archive", KEY, why=OrphanReason.EXPIRING),
        Orphan("volume", f"ws-{STRAY}-home"),
    ]
    found = list_findings([record(vanished())], orphans, now=NOW)
    assert [each.kind for each in found] == [
        FindingKind.VOLUME_VANISHED,
        FindingKind.UNKNOWN_VOLUME,
        FindingKind.EXPIRING_ARCHIVE,
    ]


def test_every_kind_says_what_repairs_it() -> None:
    assert set(REPAIRS) == set(FindingKind)
