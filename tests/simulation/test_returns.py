"""Returning to an earlier archive, as scenarios: what the archive GC has to keep for it, and for how long.

Seeds return to archives too; that the GC would have removed one of these takes a coincidence they rarely have.
"""

from collections.abc import Awaitable, Callable

import pytest

from codehub.domain.generations import left_within
from codehub.domain.retention import Owner, Protection
from codehub.domain.states import ObservedStatus, Operation
from codehub.domain.workspace import WorkspaceView
from codehub.services.errors import ArchiveNotRestorable
from tests.simulation.environment import SimulatedEnvironment
from tests.simulation.person import People
from tests.simulation.runtime import generation
from tests.simulation.simulation import play, until

LONG = 200.0
"""Many cycles of the GC."""

Script = Callable[[SimulatedEnvironment, People], Awaitable[None]]


def the_home(environment: SimulatedEnvironment) -> WorkspaceView:
    return environment.rows()[0].view


async def archived_again(environment: SimulatedEnvironment, people: People) -> str:
    """Start it, edit it, archive it; the key of that archive."""
    before = the_home(environment).archive_key
    await people.intent(the_home(environment).id, "start")
    await until(lambda: the_home(environment).observed_status is ObservedStatus.RUNNING)
    assert environment.edit(the_home(environment).id)
    await people.intent(the_home(environment).id, "archive")
    await until(lambda: is_archived(environment) and the_home(environment).archive_key != before)
    key = the_home(environment).archive_key
    assert key is not None
    return key


def is_archived(environment: SimulatedEnvironment) -> bool:
    ws = the_home(environment)
    return ws.operation is Operation.NONE and ws.observed_status is ObservedStatus.PENDING


def has_returned_to(environment: SimulatedEnvironment, key: str) -> bool:
    ws = the_home(environment)
    return ws.archive_key == key and ws.restore_from is None


async def for_long(environment: SimulatedEnvironment) -> None:
    ends = environment.loop.time() + LONG
    await until(lambda: environment.loop.time() > ends, seconds=LONG + 10)


async def two_archives(environment: SimulatedEnvironment, people: People) -> tuple[str, str]:
    await people.create(start=False)
    first = await archived_again(environment, people)
    return first, await archived_again(environment, people)


async def undone(environment: SimulatedEnvironment, people: People) -> None:
    """Archived at the second of two; to the first, and back: the first can be returned to for as long as it sleeps."""
    first, second = await two_archives(environment, people)
    for key in (first, second):
        assert await people.return_to(the_home(environment), key) is None
        await until(lambda wanted=key: has_returned_to(environment, wanted))  # type: ignore[misc]
    await for_long(environment)
    assert await people.return_to(the_home(environment), first, start=True) is None
    await until(lambda: the_home(environment).observed_status is ObservedStatus.RUNNING)
    assert generation(environment.engine.place(the_home(environment).id).volume) == 1


async def waiting(environment: SimulatedEnvironment, people: People) -> None:
    """The engine is away: the return waits, and what was chosen is kept meanwhile."""
    first, _ = await two_archives(environment, people)
    await people.intent(the_home(environment).id, "start")
    await until(lambda: the_home(environment).observed_status is ObservedStatus.RUNNING)
    environment.engine.away = True
    assert await people.return_to(the_home(environment), first) is None
    await for_long(environment)
    environment.engine.away = False
    await until(lambda: the_home(environment).in_error)  # the stop took too long; the wish outlives that
    assert await people.intent(the_home(environment).id, "recover") is None
    await until(lambda: has_returned_to(environment, first), seconds=400)  # the breaker waits minutes by then


def forget_what_was_left(owner: Owner, key: str, *, keep_generations: int) -> Protection | None:
    del keep_generations
    return Protection.CHOSEN if key == owner.chosen else None


def forget_what_was_chosen(owner: Owner, key: str, *, keep_generations: int) -> Protection | None:
    left = left_within(owner.generations, keep_generations)
    return Protection.LEFT if key in left else None


@pytest.mark.usefixtures("simulated")
@pytest.mark.parametrize("script", [undone, waiting])
def test_what_a_return_needs_is_kept(script: Script) -> None:
    assert play(script) is None  # type: ignore[arg-type]


@pytest.mark.usefixtures("simulated")
@pytest.mark.parametrize(
    ("script", "bug"), [(undone, forget_what_was_left), (waiting, forget_what_was_chosen)]
)
def test_a_gc_that_forgets_it_is_found(script: Script, bug: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Owner, "keeps_by_choice", bug)
    problem = play(script)  # type: ignore[arg-type]
    assert problem is not None
    assert problem.startswith("3: ")
    assert problem.endswith("it is needed")


@pytest.mark.usefixtures("simulated")
def test_what_is_about_to_be_removed_cannot_be_chosen() -> None:
    async def script(environment: SimulatedEnvironment, people: People) -> None:
        first, _ = await two_archives(environment, people)
        orphans = environment.database
        await until(lambda: any(path == first for path, _ in orphans.scan(None, "archive_orphans")))
        assert isinstance(await people.return_to(the_home(environment), first), ArchiveNotRestorable)

    assert play(script) is None
