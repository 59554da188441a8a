"""Hours of existing and of running, added up from timelines."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from sqlalchemy import text

from codehub.store.db.session import Session
from codehub.store.workspaces.hours import Hours, add_up
from tests.integration.store.factory import make_user, make_workspace

MONTH = datetime(2026, 11, 1, tzinfo=UTC)
"""The period begins here; hours of a case count from it."""


def hour(number: float) -> datetime:
    return MONTH + timedelta(hours=number)


async def write_timeline(
    session: Session,
    workspace_id: UUID,
    changes: list[tuple[float, str]],
    *,
    deleted: float | None = None,
) -> None:
    """Replace a timeline: (hour, observed status); the first is the creation."""
    await session.exec(text("ALTER TABLE workspaces DISABLE TRIGGER USER"))
    await session.exec(
        text("UPDATE workspaces SET created_at = :created, deleted_at = :deleted WHERE id = :id"),
        {
            "id": workspace_id,
            "created": hour(changes[0][0]),
            "deleted": None if deleted is None else hour(deleted),
        },
    )
    await session.exec(text("ALTER TABLE workspaces ENABLE TRIGGER USER"))
    await session.exec(text("DELETE FROM workspace_events WHERE workspace_id = :id"), {"id": workspace_id})
    before = None
    for at, status in changes:
        await session.exec(
            text(
                "INSERT INTO workspace_events (workspace_id, version, at, changes) VALUES (:id, 1, :at,"
                " jsonb_build_object('observed_status',"
                " jsonb_build_array(CAST(:before AS text), CAST(:status AS text))))"
            ),
            {"id": workspace_id, "at": hour(at), "status": status, "before": before},
        )
        before = status
        await session.exec(  # what else happens to a workspace does not matter
            text(
                "INSERT INTO workspace_events (workspace_id, version, at, changes) VALUES (:id, 1, :at, '{}')"
            ),
            {"id": workspace_id, "at": hour(at)},
        )


@pytest.mark.parametrize(
    ("changes", "deleted", "expected"),
    [
        pytest.param([(-50, "PENDING")], None, Hours(100, 0), id="never ran"),
        pytest.param([(10, "PENDING"), (20, "RUNNING"), (25, "STANDBY")], None, Hours(90, 5), id="ran once"),
        pytest.param([(-9, "RUNNING"), (4, "STANDBY")], None, Hours(100, 4), id="ran into the period"),
        pytest.param([(-9, "RUNNING")], None, Hours(100, 100), id="never slept"),
        pytest.param([(-9, "RUNNING"), (-5, "STANDBY")], None, Hours(100, 0), id="ran before"),
        pytest.param([(90, "RUNNING")], None, Hours(10, 10), id="runs still"),
        pytest.param(
            [(0, "PENDING"), (1, "RUNNING"), (2, "STANDBY"), (3, "RUNNING"), (5, "STANDBY")],
            None,
            Hours(100, 3),
            id="ran twice",
        ),
        pytest.param([(0, "RUNNING"), (40, "DELETED")], 40, Hours(40, 40), id="deleted while it ran"),
        pytest.param([(0, "RUNNING"), (45, "DELETED")], 40, Hours(40, 40), id="its container went later"),
        pytest.param([(-90, "RUNNING"), (-10, "DELETED")], -10, Hours(0, 0), id="deleted before"),
        pytest.param([(110, "RUNNING")], None, Hours(0, 0), id="made after"),
    ],
)
async def test_a_timeline(
    session: Session, changes: list[tuple[float, str]], deleted: float | None, expected: Hours
) -> None:
    owner = await make_user(session, "ann")
    workspace_id = await make_workspace(session, owner)
    await write_timeline(session, workspace_id, changes, deleted=deleted)
    assert await add_up(session, owner_id=owner, since=MONTH, until=hour(100)) == expected
    assert await add_up(session, owner_id=None, since=MONTH, until=hour(100)) == expected


@pytest.mark.parametrize(
    ("changes", "deleted", "gb_hours"),
    [
        pytest.param([(0, "PENDING")], None, 0, id="new: nothing was archived"),
        pytest.param([(0, "RUNNING"), (10, "STANDBY")], None, 0, id="asleep: its home is on a disk"),
        pytest.param([(0, "STANDBY"), (40, "PENDING")], None, 180, id="archived"),
        pytest.param([(0, "STANDBY"), (40, "PENDING"), (50, "STANDBY")], None, 30, id="and restored"),
        pytest.param([(-9, "STANDBY"), (-5, "PENDING")], None, 300, id="archived before"),
        pytest.param([(0, "STANDBY"), (40, "PENDING")], 60, 60, id="until it was deleted"),
    ],
)
async def test_gigabytes_on_no_disk(
    session: Session, changes: list[tuple[float, str]], deleted: float | None, gb_hours: float
) -> None:
    owner = await make_user(session, "ann")
    workspace_id = await make_workspace(
        session, owner, home_ctx={"sizes": {"bytes": 1_000_000_000, "home_bytes": 3_000_000_000}}
    )
    await write_timeline(session, workspace_id, changes, deleted=deleted)
    found = await add_up(session, owner_id=owner, since=MONTH, until=hour(100))
    assert found.gb_hours == pytest.approx(gb_hours)


async def test_gigabytes_that_are_archived_now(session: Session) -> None:
    owner = await make_user(session, "ann")
    sizes = {"sizes": {"bytes": 1_000_000_000}}  # by an older release: the size of the archive is known alone
    archived = {"archive_key": "key", "home_ctx": sizes}
    await make_workspace(session, owner, observed_status="PENDING", **archived)
    await make_workspace(session, owner, observed_status="STANDBY", **archived)
    found = await add_up(session, owner_id=owner, since=MONTH, until=datetime.now(UTC) + timedelta(days=400))
    assert found.gb_archived == 1.0


async def test_of_one_person_and_of_everybody(session: Session) -> None:
    ann, bob = await make_user(session, "ann"), await make_user(session, "bob")
    for owner, ran in ((ann, 10), (ann, 20), (bob, 40)):
        await write_timeline(
            session, await make_workspace(session, owner), [(0, "RUNNING"), (ran, "STANDBY")]
        )
    of = {
        owner: await add_up(session, owner_id=owner, since=MONTH, until=hour(100))
        for owner in (ann, bob, None)
    }
    assert of == {ann: Hours(200, 30), bob: Hours(100, 40), None: Hours(300, 70)}
    assert [each.saved for each in of.values()] == [170, 60, 230]
