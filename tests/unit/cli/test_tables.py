"""Every table of ``codehub ws``, ``admin`` and ``user`` fits 80 columns, whatever is in it, and loses nothing."""

from datetime import UTC, datetime
from io import StringIO
from typing import Any, cast
from uuid import UUID

import pytest
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

from codehub.cli.admin import findings_table, leaders_table, orphans_table
from codehub.cli.archives import archives_table
from codehub.cli.history import lines_table
from codehub.cli.users import users_table
from codehub.cli.workspaces import workspaces_table
from codehub.domain.states import Role
from codehub.store.accounts.users import UserRecord
from tests.unit.cli.samples import NOW, activity, in_, workspace

WIDTH = 80
LONG = "juniper-with-quite-a-long-name-that-someone-really-typed-in-here"
WIDE = "아주 긴 이름을 가진 워크스페이스와 그 안의 실험 노트북 모음 두 번째 판 그리고 나머지 것들 모두 다"
UNBROKEN = "가" * 64
KEY = "01a1ed24-ce21-7f58-9a44-3f881140ab98/01a1ed24-ce21-7f58-9a44-3f881140ab99/1/home.tar.zst"


def workspaces(*, everyone: bool) -> Table:
    busy = {"status": "provisioning", "progress": 45, "waiting_for": None}
    kept = {
        "activity": activity(next={"to": "PENDING", "at": in_(71_000), "why": "not used for 1 d"}),
        "last_access_at": in_(-70_980),
    }
    found = [
        workspace(name="thesis", id="01a1ed24-ce21-7f58-9a44-3f881140ab98"),
        workspace(name=LONG, **busy),
        workspace(name=WIDE, **kept),
        workspace(name=UNBROKEN, status="error"),
    ]
    return workspaces_table(found, everyone=everyone, narrow=True, now=NOW)


def archives() -> Table:
    made = {
        "key": KEY,
        "bytes": 960_000_000,
        "files": 1_234_567,
        "sha256": "0" * 64,
        "created_at": in_(-70_980),
    }
    return archives_table([cast(Any, made)], current=KEY, now=NOW)


def leaders() -> Table:
    leader = {
        "name": "coordinator:observer",
        "holder_id": f"{LONG}-7d9c5b-x2x4q",
        "acquired_at": in_(-1_000_000),
        "epoch": 1234,
        "last_tick_at": in_(-70_980),
    }
    return leaders_table([cast(Any, leader)], now=NOW)


def orphans() -> Table:
    kept = {
        "kind": "container",
        "name": KEY,
        "first_seen_at": in_(-70_980),
        "bytes": 1_830_000_000,
        "why": "retained",
    }
    return orphans_table([cast(Any, kept)], now=NOW)


def findings() -> Table:
    broken = {
        "kind": "archiving_given_up",
        "subject": LONG,
        "workspace_id": "01a1ed24-ce21-7f58-9a44-3f881140ab98",
        "name": LONG,
        "owner": UNBROKEN,
        "since": in_(-70_980),
        "repairs": ["return_to_newest", "recover"],
    }
    return findings_table([cast(Any, broken)], now=NOW)


def users() -> Table:
    people = [
        UserRecord(
            id=UUID(int=number),
            username=name,
            role=Role.ADMIN,
            created_at=datetime(2026, 1, 1, tzinfo=UTC),
            disabled_at=datetime(2026, 1, 1, tzinfo=UTC),
        )
        for number, name in enumerate((LONG, UNBROKEN, "ann"))
    ]
    return users_table(people)


def history() -> Table:
    return lines_table([(in_(0), f"Renamed from {LONG} to {UNBROKEN}, by {WIDE}")])


TABLES = {
    "ws list": lambda: workspaces(everyone=False),
    "ws list --all": lambda: workspaces(everyone=True),
    "ws archives": archives,
    "ws history": history,
    "admin overview": leaders,
    "admin orphans": orphans,
    "admin findings": findings,
    "user list": users,
}


@pytest.mark.parametrize("name", TABLES)
def test_it_fits_and_nothing_is_cut_off(name: str) -> None:
    console = Console(width=WIDTH, file=StringIO(), color_system=None)
    console.print(TABLES[name]())
    shown = cast(StringIO, console.file).getvalue()
    assert max(cell_len(line.rstrip()) for line in shown.splitlines()) <= WIDTH
    assert "…" not in shown


def test_everybodys_workspaces_are_told_apart_by_whole_ids() -> None:
    console = Console(width=WIDTH, file=StringIO(), color_system=None)
    console.print(workspaces(everyone=True))
    assert "01a1ed24-ce21-7f58-9a44-3f881140ab98" in cast(StringIO, console.file).getvalue()


def test_a_pipe_gets_every_column() -> None:
    table = workspaces_table([workspace()], everyone=True, narrow=False, now=NOW)
    assert [column.header for column in table.columns] == [
        "name",
        "status",
        "next",
        "last used",
        "owner",
        "id",
        "tags",
    ]
