"""Snapshots and copies, as scenarios: what the archive GC has to keep for them, and for how long.

Seeds take snapshots and open copies too; that the GC would have removed one of these takes a coincidence they rarely
have.
"""

from collections.abc import Awaitable, Callable, Collection
from typing import Any

import pytest

from codehub.domain.retention import Owner, Protection
from codehub.domain.states import ObservedStatus, Operation
from codehub.domain.workspace import WorkspaceView
from codehub.services.errors import NotCopyable, SnapshotRefused
from tests.simulation import store
from tests.simulation.environment import SimulatedEnvironment
from tests.simulation.person import People
from tests.simulation.runtime import generation
from tests.simulation.simulation import play, until
from tests.simulation.test_returns import archived_again, for_long, the_home, two_archives

Script = Callable[[SimulatedEnvironment, People], Awaitable[None]]


def the_copy(environment: SimulatedEnvironment) -> WorkspaceView:
    return environment.rows()[1].view


def content(environment: SimulatedEnvironment, ws: WorkspaceView) -> int | None:
    return generation(environment.engine.place(ws.id).volume)


async def asleep(environment: SimulatedEnvironment, people: People) -> WorkspaceView:
    """A home with one edit that sleeps on its volume."""
    await people.create(start=True)
    await until(lambda: the_home(environment).observed_status is ObservedStatus.RUNNING)
    assert environment.edit(the_home(environment).id)
    await people.intent(the_home(environment).id, "stop")
    await until(lambda: the_home(environment).observed_status is ObservedStatus.STANDBY)
    return the_home(environment)


async def of_a_sleeping_home(environment: SimulatedEnvironment, people: People) -> None:
    """The volume stays, the archive is kept however many follow, and goes once the snapshot is deleted."""
    ws = await asleep(environment, people)
    assert await people.snapshot(ws) is None
    await until(lambda: bool(the_home(environment).snapshots))
    await until(lambda: the_home(environment).operation is Operation.NONE)
    (kept,) = the_home(environment).snapshots
    assert the_home(environment).observed_status is ObservedStatus.STANDBY
    assert content(environment, ws) == 1
    for _ in range(2):
        await archived_again(environment, people)
    await for_long(environment)
    assert kept.archive_key in environment.archives.committed(ws.id)
    assert await people.forget_snapshot(ws, kept.id) is None
    await until(lambda: kept.archive_key not in environment.archives.objects, seconds=300)


async def copied_and_deleted(environment: SimulatedEnvironment, people: People) -> None:
    """A copy of the first of two archives; its source is deleted; it is started long after."""
    first, _ = await two_archives(environment, people)
    assert await people.copy(the_home(environment), first) is None
    await people.intent(the_home(environment).id, "delete")
    await for_long(environment)
    assert await people.intent(the_copy(environment).id, "start") is None
    await until(lambda: the_copy(environment).observed_status is ObservedStatus.RUNNING)
    assert content(environment, the_copy(environment)) == 1
    await people.intent(the_copy(environment).id, "archive")
    copy_id = the_copy(environment).id
    await until(lambda: (the_copy(environment).archive_key or "").startswith(str(copy_id)))
    await until(lambda: first not in environment.archives.objects, seconds=300)  # nobody needs it any more


async def copied_of_a_copy(environment: SimulatedEnvironment, people: People) -> None:
    """The archive of an unused copy is its source's: it can be copied, and is not the copy's to keep."""
    first, _ = await two_archives(environment, people)
    assert await people.copy(the_home(environment), first) is None
    await until(lambda: the_copy(environment).archive_key == first)
    assert isinstance(await people.snapshot(the_copy(environment)), SnapshotRefused)


def forget_snapshots(owner: Owner, key: str, *, keep_generations: int) -> Protection | None:
    del keep_generations
    return Protection.CHOSEN if key == owner.chosen else None


async def forget_copies(session: Any, paths: Collection[str]) -> frozenset[str]:
    del session, paths
    return frozenset()


@pytest.mark.usefixtures("simulated")
@pytest.mark.parametrize("script", [of_a_sleeping_home, copied_and_deleted, copied_of_a_copy])
def test_what_snapshots_and_copies_need_is_kept(script: Script) -> None:
    assert play(script) is None  # type: ignore[arg-type]


@pytest.mark.usefixtures("simulated")
def test_a_gc_that_forgets_snapshots_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Owner, "keeps_by_choice", forget_snapshots)
    problem = play(of_a_sleeping_home)
    assert problem is not None
    assert problem.startswith(("3: ", "11: "))


@pytest.mark.usefixtures("simulated")
def test_a_gc_that_forgets_copies_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "copied_among", forget_copies)
    problem = play(copied_and_deleted)
    assert problem is not None
    assert problem.startswith("3: ")
    assert problem.endswith("it is needed")


@pytest.mark.usefixtures("simulated")
def test_what_is_about_to_be_removed_is_neither_copied_nor_kept() -> None:
    async def script(environment: SimulatedEnvironment, people: People) -> None:
        first, _ = await two_archives(environment, people)
        orphans = environment.database
        await until(lambda: any(path == first for path, _ in orphans.scan(None, "archive_orphans")))
        assert isinstance(await people.copy(the_home(environment), first), NotCopyable)

    assert play(script) is None


@pytest.mark.usefixtures("simulated")
def test_no_snapshot_is_taken_of_what_runs() -> None:
    async def script(environment: SimulatedEnvironment, people: People) -> None:
        await people.create(start=True)
        await until(lambda: the_home(environment).observed_status is ObservedStatus.RUNNING)
        assert isinstance(await people.snapshot(the_home(environment)), SnapshotRefused)

    assert play(script) is None
