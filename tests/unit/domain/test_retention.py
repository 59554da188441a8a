"""Which archives may go: each protection, and everything that lifts or refuses one."""

from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from codehub.domain.retention import (
    Owner,
    Protection,
    Sorted,
    StoredAttempt,
    Thinning,
    may_delete,
    may_sweep_packs_of,
    sort_archives,
)

from .builders import NOW

WORKSPACE, OTHER = uuid4(), uuid4()
DELAY = timedelta(hours=2)
UNMARKED: dict[str, Any] = {"deleted": False, "in_error": False, "archive_key": None, "op_id": None}


def owner(**fields: Any) -> Owner:
    return Owner(id=WORKSPACE, **(UNMARKED | {"has_volume": True} | fields))


def attempt(
    age: int,
    *,
    committed: bool = True,
    op_id: UUID | None = None,
    workspace_id: UUID = WORKSPACE,
    number: int = 1,
) -> StoredAttempt:
    op_id = op_id or uuid4()
    key = f"{workspace_id}/{op_id}/{number}/home.tar.zst"
    return StoredAttempt(key, workspace_id, op_id, committed, NOW - timedelta(days=age))


def sort(attempts: list[StoredAttempt], of: Owner | None, keep: int = 0) -> Sorted:
    return sort_archives(attempts, {of.id: of} if of else {}, keep_generations=keep)


class TestProtected:
    def test_the_archive_key_is_the_data(self) -> None:
        mine = attempt(900)
        found = sort([mine], owner(archive_key=mine.key))
        assert found.protected == {mine.key: Protection.CURRENT}
        assert found.orphans == ()

    def test_every_path_under_the_op_id(self) -> None:
        op_id = uuid4()
        debris = attempt(2, op_id=op_id, committed=False, number=1)
        done = attempt(1, op_id=op_id, number=2)
        found = sort([debris, done], owner(op_id=op_id))
        assert found.protected == {debris.key: Protection.OPERATION, done.key: Protection.OPERATION}

    def test_everything_of_a_workspace_in_error(self) -> None:
        mine = [attempt(1), attempt(2), attempt(3, committed=False)]
        found = sort(mine, owner(in_error=True))
        assert found.protected == {one.key: Protection.ERROR for one in mine}

    def test_the_newest_of_each_day_and_week(self) -> None:
        mine = {age: attempt(age) for age in range(40)}
        later = replace(mine[5], key="later", stored_at=mine[5].stored_at + timedelta(minutes=1))
        of = owner(archive_key=mine[0].key)

        def kept(thinning: Thinning, keep: int = 0) -> set[str]:
            attempts = [*mine.values(), later]
            found = sort_archives(attempts, {of.id: of}, keep_generations=keep, thinning=thinning)
            assert len(found.protected) + len(found.orphans) == len(attempts)
            return {key for key, why in found.protected.items() if why is Protection.THINNED}

        assert kept(Thinning()) == set()
        # Of the day with two, the later one; the current one is kept for a better reason.
        assert kept(Thinning(days=6)) == {mine[age].key for age in (1, 2, 3, 4)} | {"later"}
        assert kept(Thinning(days=6), keep=3) == {mine[age].key for age in (3, 4)} | {"later"}
        weeks = {each.stored_at.isocalendar()[:2] for each in mine.values()}
        assert len(kept(Thinning(weeks=4))) == 3
        assert len(kept(Thinning(weeks=100))) == len(weeks) - 1

    def test_days_without_an_archive_use_up_no_place(self) -> None:
        mine = [attempt(age) for age in (100, 200, 300)]
        found = sort_archives(mine, {WORKSPACE: owner()}, keep_generations=0, thinning=Thinning(days=2))
        assert found.protected == {one.key: Protection.THINNED for one in mine[:2]}

    def test_deletion_lifts_this_too(self) -> None:
        thinning = Thinning(days=9, weeks=9)
        of = owner(deleted=True)
        assert sort_archives([attempt(1)], {of.id: of}, keep_generations=3, thinning=thinning).protected == {}

    def test_the_newest_generations(self) -> None:
        mine = [attempt(age) for age in (5, 1, 4, 2, 3)]
        found = sort(mine, owner(), keep=3)
        assert found.protected == {mine[at].key: Protection.GENERATION for at in (1, 3, 4)}
        assert set(found.orphans) == {mine[0], mine[2]}

    def test_the_only_copy(self) -> None:
        older, last = attempt(9), attempt(8)
        found = sort([older, last], owner(has_volume=False))
        assert found.protected == {last.key: Protection.ONLY_COPY}
        assert found.orphans == (older,)

    @pytest.mark.parametrize("kept_by", ["volume", "archive_key"])
    def test_a_copy_beside_another_is_not_the_only_one(self, kept_by: str) -> None:
        old, current = attempt(9), attempt(1)
        of = (
            owner(has_volume=True)
            if kept_by == "volume"
            else owner(has_volume=False, archive_key=current.key)
        )
        assert old in sort([old, current], of).orphans

    def test_the_first_protection_is_named(self) -> None:
        mine = attempt(1)
        of = owner(archive_key=mine.key, op_id=mine.op_id, in_error=True)
        assert sort([mine], of, keep=3).protected == {mine.key: Protection.CURRENT}


class TestNotProtected:
    @pytest.mark.parametrize(
        "fields",
        [{}, {"in_error": True}, {"has_volume": False}, {"archive_key": "K", "op_id": uuid4()}],
        ids=["plain", "in-error", "no-volume", "named"],
    )
    def test_deletion_lifts_all_protection(self, fields: dict[str, Any]) -> None:
        of = owner(deleted=True, **fields)
        mine = [attempt(1, op_id=of.op_id), attempt(2), attempt(3, committed=False)]
        found = sort(mine, of, keep=3)
        assert (found.protected, found.orphans) == ({}, tuple(mine))

    def test_debris_of_an_older_operation_goes(self) -> None:
        debris = attempt(1, committed=False)
        assert sort([debris], owner(has_volume=False), keep=3).orphans == (debris,)

    def test_debris_is_no_generation(self) -> None:
        debris, good = attempt(1, committed=False), attempt(2)
        assert sort([debris, good], owner(), keep=1).protected == {good.key: Protection.GENERATION}

    def test_a_workspace_without_operation_protects_no_path_by_it(self) -> None:
        mine = attempt(1)
        assert sort([mine], owner(op_id=None)).orphans == (mine,)

    def test_one_workspace_protects_nothing_of_another(self) -> None:
        mine, theirs = attempt(1), attempt(1, workspace_id=OTHER)
        owners = {
            WORKSPACE: owner(archive_key=mine.key),
            OTHER: Owner(id=OTHER, **(UNMARKED | {"deleted": True}), has_volume=False),
        }
        found = sort_archives([mine, theirs], owners, keep_generations=3)
        assert (set(found.protected), found.orphans) == ({mine.key}, (theirs,))


def test_what_belongs_to_nobody_here_is_left_alone() -> None:
    """A shared bucket, or a fresh database on an old one, loses nothing."""
    strange = [attempt(1), attempt(999, committed=False)]
    assert sort(strange, None, keep=3) == Sorted({}, (), tuple(strange))


@pytest.mark.parametrize(
    ("first_seen_at", "goes"),
    [
        (None, False),  # the first cycle that sees it
        (NOW, False),
        (NOW - DELAY, False),
        (NOW - DELAY - timedelta(seconds=1), True),
        (NOW + DELAY, False),  # a clock that jumped back only delays
    ],
)
def test_an_orphan_goes_when_seen_before_and_long_enough_ago(first_seen_at: Any, goes: bool) -> None:
    assert may_delete(first_seen_at=first_seen_at, now=NOW, delay=DELAY) is goes


@pytest.mark.parametrize(
    ("fields", "may"),
    [
        ({"op_id": OTHER}, True),  # op_id stays after an operation has ended
        ({"in_operation": True}, False),
        ({"in_error": True}, False),
        ({"deleted": True, "in_error": True}, True),
        ({"deleted": True, "in_operation": True}, False),
    ],
)
def test_packs_are_swept_unless_an_operation_may_name_them(fields: dict[str, Any], may: bool) -> None:
    assert may_sweep_packs_of(owner(**fields)) is may
