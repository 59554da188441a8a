"""The simulated database does what PostgreSQL does: the same calls, the same answers, the same rows.

Random calls of every function of the store, valid ones and stale ones, go to both. Times
are compared by their order, operations by the order of their claims.
"""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import select

from codehub.domain.busy import Busy, BusySign, BusyWith
from codehub.domain.copies import CopySource
from codehub.domain.errors import ErrorInfo, Reason
from codehub.domain.generations import ChosenArchive
from codehub.domain.snapshots import Snapshot, WantedSnapshot
from codehub.domain.states import DesiredState, HealthStatus, ObservedStatus, Operation
from codehub.domain.workspace import HomeContext, WorkspaceView
from codehub.store import control
from codehub.store.accounts import users
from codehub.store.db.session import Sessions
from codehub.store.schema.tables import workspaces as w
from codehub.store.workspaces.bulk_claims import Completion, Step
from codehub.store.workspaces.claims import ClaimedOperation
from codehub.store.workspaces.observations import FIRST_PAGE, Observed
from codehub.store.workspaces.records import VIEW
from tests.simulation import rows
from tests.simulation.chaos import Chaos
from tests.simulation.comparison import comparable, order_of_times
from tests.simulation.connection import Connection, Session
from tests.simulation.database import Database
from tests.simulation.queries import WORKSPACES
from tests.simulation.store import STORE

IDS = [UUID(int=number, version=4) for number in (1, 2, 3)]
OWNER = UUID(int=9, version=4)
LOCK = "coordinator:test"
CALLS = 100
JOB = BusySign(BusyWith.JOB, "make")


CHOSEN = ChosenArchive("key-2", datetime(2030, 1, 1, tzinfo=UTC), "sum", {"bytes": 1})
WANTED = WantedSnapshot(UUID(int=71), "kept", CHOSEN.created_at)
TAKEN = Snapshot(UUID(int=72), "older", "key-3", CHOSEN.created_at, sha256="sum", sizes={"bytes": 1})


@dataclass
class Side:
    """One of the two databases, with what a caller remembers of it."""

    real: bool
    factory: Any
    claims: dict[UUID, list[ClaimedOperation]] = field(default_factory=dict)
    old_views: dict[UUID, WorkspaceView] = field(default_factory=dict)
    times: list[datetime] = field(default_factory=list)

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Any]:
        async with self.factory() as session, session.begin():
            yield session

    async def call(self, function: str, /, *args: Any, **kwargs: Any) -> Any:
        async with self.session() as session:
            return await getattr(control if self.real else STORE, function)(session, *args, **kwargs)

    async def everything(self) -> list[tuple[WorkspaceView, dict[str, Any]]]:
        """All rows, with their derived columns."""
        async with self.session() as session:
            if self.real:
                derived = [w.c[name] for name in rows.DERIVED]
                found = await session.exec(select(VIEW, *derived).order_by(w.c.id))
                return [(ws, dict(zip(rows.DERIVED, rest, strict=True))) for ws, *rest in found]
            views = sorted((row.view for row in session.db.scan(None, WORKSPACES)), key=lambda ws: ws.id)
            return [(ws, {name: rule(ws) for name, rule in rows.DERIVED.items()}) for ws in views]


def an_error(at: datetime, *, terminal: bool) -> ErrorInfo:
    return ErrorInfo(Reason.ACTION_FAILED, "no", terminal, Operation.STARTING, 1, at)


async def one_call(side: Side, dice: random.Random) -> Any:
    """A call drawn from the dice; both sides are given dice that fall alike."""
    now = await side.call("now")
    side.times.append(now)
    each = dice.choice(IDS)
    view = {ws.id: ws for ws, _ in await side.everything()}[each]
    if dice.random() < 0.2:
        side.old_views[each] = view
    planned = side.old_views.get(each, view) if dice.random() < 0.2 else view
    claim = _claim(side, view, stale=dice.random() < 0.2)
    home = HomeContext(
        volume=dice.random() < 0.5,
        restore_marker=dice.choice((None, "key-1", "key-2")),
        keeps_volume=dice.random() < 0.3,
    )
    error = an_error(now, terminal=dice.random() < 0.3)
    seen_at = dice.choice(side.times[-3:])
    status = dice.choice(list(ObservedStatus))
    seen = [Observed(each, status, dice.choice(list(HealthStatus)))]
    operation = dice.choice(list(Operation)[1:])
    calls: dict[str, Any] = {
        "claim_all": lambda: side.call("claim_all", _several_steps(side, planned, operation, home)),
        "record_crash": lambda: side.call("record_crash", planned, error, home=home),
        "set_error_without_operation": lambda: side.call(
            "set_error_without_operation", planned, error, home=home
        ),
        "mark_home": lambda: side.call("mark_home", planned, home=home),
        "write_observations": lambda: side.call("write_observations", seen, observed_at=seen_at),
        "stamp_in_flight": lambda: side.call("stamp_in_flight", [each], observed_at=seen_at),
        "stamp_coarse": lambda: side.call("stamp_coarse", observed_at=now, older_than=seen_at),
        "set_invariant_error": lambda: side.call("set_invariant_error", each, error),
        "load_watched": lambda: side.call("load_watched", after=FIRST_PAGE, limit=dice.choice((1, 100))),
        "load_named": lambda: side.call("load_named", [each]),
        "load_work": lambda: side.call("load_work", limit=10, retried_before=seen_at),
        "load_in_flight": lambda: side.call("load_in_flight", retried_before=seen_at),
        "set_desired": lambda: side.call(
            "set_desired",
            each,
            dice.choice(list(DesiredState)),
            expected=dice.choice((None, *DesiredState)),
            touch=dice.random() < 0.5,
        ),
        "mark_deleted": lambda: side.call("mark_deleted", each) if dice.random() < 0.15 else _nothing(),
        "touch": lambda: side.call("touch", [each]),
        "set_busy": lambda: side.call("set_busy", each, dice.choice((None, Busy(JOB, seen_at, now)))),
        "set_restore_from": lambda: side.call(
            "set_restore_from", each, dice.choice((None, ChosenArchive("key-1", now), CHOSEN))
        ),
        "switch_archive": lambda: side.call("switch_archive", planned, archive_key="key-2", home=home),
        "set_snapshots": lambda: side.call(
            "set_snapshots", each, wanted=dice.choice((None, WANTED)), made=dice.choice(((), (TAKEN,)))
        ),
        "set_copy_of": lambda: side.call("set_copy_of", each, CopySource(OWNER, "key-2")),
        "copied_among": lambda: side.call("copied_among", ["key-1", "key-2", "key-3"]),
        "orphans_among": lambda: side.call("orphans_among", ["a", "d"]),
        "recover": lambda: side.call("recover", each, home=home),
        "find": lambda: side.call("find", each),
        "set_queued": lambda: side.call("set_queued", each, queued=dice.random() < 0.7),
        "load_start_queue": lambda: side.call("load_start_queue"),
        "usage_for": lambda: side.call("usage_for", OWNER, actor="user:a", cause="b"),
        "load_standby_candidates": lambda: side.call(
            "load_standby_candidates",
            now=now,
            after=dice.choice((FIRST_PAGE, each)),
            limit=dice.choice((1, 100)),
        ),
        "load_archive_candidates": lambda: side.call(
            "load_archive_candidates", now=now + timedelta(days=dice.choice((0, 2))), limit=100
        ),
        "load_owners": lambda: side.call("load_owners", [each]),
        "replace_seen": lambda: side.call("replace_seen", dice.sample(["a", "b", "c"], 2)),
        "forget": lambda: side.call("forget", ["a"]),
        "acquire_term": lambda: side.call("acquire_term", LOCK, "me"),
        "hold_term": lambda: side.call("hold_term", LOCK, dice.choice((1, 2, 3))),
        "record_tick": lambda: side.call("record_tick", LOCK, detail={"n": dice.choice((1, 2))}),
        "record_error": lambda: side.call("record_error", LOCK, "ValueError: no"),
        "last_tick_at": lambda: side.call("last_tick_at", LOCK),
    }
    if claim is not None:
        calls |= {
            "holds": lambda: side.call("holds", claim),
            "catch_up": lambda: side.call("catch_up", claim, seen_op_seq=dice.choice((0, 50))),
            "complete_all": lambda: side.call(
                "complete_all",
                [Completion(each, home, now) for each in (claim, *_latest_claims(side, view.id))],
            ),
            "record_failure": lambda: side.call("record_failure", claim, error, home=home),
            "release": lambda: side.call(
                "release",
                claim,
                error,
                home=home,
                return_given_up=dice.choice((None, "key-1")),
                snapshot_given_up=dice.choice((None, WANTED.id)),
            ),
            "go_terminal": lambda: side.call("go_terminal", claim, error),
            "commit_archive_key": lambda: side.call("commit_archive_key", claim, "key-1", home=home),
            "mark_restored": lambda: side.call("mark_restored", claim, home=home),
        }
    name = dice.choice(list(calls))
    result = await calls[name]()
    if name in ("load_watched", "load_named"):  # neither an order nor how many come together was asked for
        result = sorted(
            ((each, replace(row, ids=())) for row in result for each in row.ids), key=itemgetter(0)
        )
    if isinstance(result, (set, frozenset)):
        result = sorted(result)
    if name == "claim_all":
        result = dict(sorted(result.items()))
        for workspace_id, made in result.items():
            side.claims.setdefault(workspace_id, []).append(ClaimedOperation.of(made))
    return name, result


async def _nothing() -> None:
    return None


def _several_steps(side: Side, planned: WorkspaceView, operation: Operation, home: HomeContext) -> list[Step]:
    """What was planned, and old plans for others: some of a batch meet their row and some do not."""
    others = [ws for each, ws in sorted(side.old_views.items()) if each != planned.id]
    return [Step(ws, operation, home) for ws in (planned, *others)]


def _latest_claims(side: Side, but: UUID) -> list[ClaimedOperation]:
    return [held[-1] for each, held in sorted(side.claims.items()) if each != but]


def _claim(side: Side, view: WorkspaceView, *, stale: bool) -> ClaimedOperation | None:
    held = side.claims.get(view.id, [])
    if stale and len(held) > 1:
        return held[-2]
    return ClaimedOperation.of(view) if view.operation is not Operation.NONE else (held[-1] if held else None)


@pytest.mark.parametrize("seed", range(3))
async def test_both_databases_answer_alike(seed: int, session_factory: Sessions) -> None:
    database = Database(chaos=Chaos(seed, on=False), loop=asyncio.get_running_loop())
    sides = (
        Side(True, session_factory),
        Side(False, lambda: Session(Connection(database))),
    )
    async with session_factory.begin() as session:
        await users.create(session, user_id=OWNER, username="owner", password_hash="-")
    for number, each in enumerate(IDS):
        for side in sides:
            await side.call(
                "create",
                workspace_id=each,
                owner_id=OWNER,
                name=f"home-{number}",
                image_ref="image",
                desired_state=DesiredState.RUNNING if number else DesiredState.PENDING,
            )
    dice = [random.Random(seed), random.Random(seed)]
    labels: list[dict[Any, str]] = [{}, {}]
    called: set[str] = set()
    for step in range(CALLS):
        answers = [await one_call(side, own) for side, own in zip(sides, dice, strict=True)]
        real, fake = (comparable(a, own) for a, own in zip(answers, labels, strict=True))
        assert real == fake, f"call {step}"
        real, fake = [
            [(comparable(ws, own), comparable(derived, own), order_of_times(ws)) for ws, derived in found]
            for own, found in zip(labels, [await side.everything() for side in sides], strict=True)
        ]
        assert real == fake, f"rows after call {step}: {answers[0][0]}"
        called.add(answers[0][0])
    assert len(called) > 20
