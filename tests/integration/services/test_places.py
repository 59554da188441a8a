"""Running places on a real database: the queue is fair, exact, and left by whoever stops or deletes."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar, cast
from uuid import UUID

import pytest

from codehub.domain.limits import RunningLimits
from codehub.domain.states import DesiredState
from codehub.domain.waking import WakeResult
from codehub.services import places, workspaces
from codehub.services.actors import Actor
from codehub.services.errors import LimitReached, NotFound
from codehub.services.identity import Identities
from codehub.services.waking import WakeService
from codehub.store.db.session import Session, Sessions
from codehub.store.workspaces.records import WorkspaceRecord
from tests.integration.store.factory import an_error, make_user, make_workspace, view

T = TypeVar("T")
ADMIN = Actor("user:admin", is_admin=True)
ONE = RunningLimits(per_user=1, in_all=1)

Do = Callable[[Callable[[Session], Awaitable[T]]], Awaitable[T]]


@pytest.fixture
def do(session_factory: Sessions) -> Callable[[Callable[[Session], Awaitable[object]]], Awaitable[object]]:
    """One request: one transaction."""

    async def request(call: Callable[[Session], Awaitable[object]]) -> object:
        async with session_factory.begin() as session:
            return await call(session)

    return request


def start(
    workspace_id: UUID, limits: RunningLimits = ONE, *, queue: bool = True, instead_of: UUID | None = None
) -> Callable[[Session], Awaitable[WorkspaceRecord]]:
    return lambda session: workspaces.start(
        session, workspace_id, actor=ADMIN, limits=limits, queue=queue, instead_of=instead_of
    )


def admit(limits: RunningLimits = ONE) -> Callable[[Session], Awaitable[list[UUID]]]:
    async def call(session: Session) -> list[UUID]:
        admitted, _ = await places.admit(session, limits=limits)
        return admitted

    return call


async def asleep(session: Session, owner: UUID | None = None) -> UUID:
    return await make_workspace(session, owner, desired_state="STANDBY", observed_status="STANDBY")


async def test_one_place_is_given_once_and_in_order(session: Session, do: Do[object]) -> None:
    first, second, third = [await asleep(session) for _ in range(3)]
    for each in (first, second, third):
        await do(start(each))
    assert (await view(session, first)).desired_state is DesiredState.RUNNING
    assert (await view(session, second)).is_queued
    queued_at = (await view(session, second)).queued_at
    await do(start(second))  # again: it keeps its place
    assert (await view(session, second)).queued_at == queued_at
    assert await do(admit()) == []
    await do(lambda s: workspaces.stop(s, first, actor=ADMIN))
    # As leaders that believe in themselves, all at once.
    admitted = await asyncio.gather(*(do(admit()) for _ in range(4)))
    assert sorted(admitted, key=bool) == [[], [], [], [second]]
    assert not (await view(session, second)).is_queued
    assert (await view(session, third)).is_queued


async def test_a_newcomer_does_not_take_the_place_of_one_who_waits(session: Session, do: Do[object]) -> None:
    first, second, third = [await asleep(session) for _ in range(3)]
    await do(start(first))
    await do(start(second))
    await do(lambda s: workspaces.stop(s, first, actor=ADMIN))
    with pytest.raises(LimitReached):
        await do(start(third, queue=False))
    await do(start(second, queue=False))  # it is its turn
    assert (await view(session, second)).desired_state is DesiredState.RUNNING


@pytest.mark.parametrize("leave", [workspaces.stop, workspaces.archive, workspaces.delete])
async def test_stopping_archiving_and_deleting_leave_the_queue(
    session: Session, do: Do[object], leave: Callable[..., Awaitable[WorkspaceRecord]]
) -> None:
    first, second = [await asleep(session) for _ in range(2)]
    await do(start(first))
    await do(start(second))
    await do(lambda s: leave(s, second, actor=ADMIN))
    assert (await view(session, second)).queued_at is None
    await do(lambda s: workspaces.stop(s, first, actor=ADMIN))
    assert await do(admit()) == []
    assert (await view(session, second)).desired_state is not DesiredState.RUNNING


async def test_one_of_the_same_person_gives_its_place_and_nobody_in_line_gets_it(
    session: Session, do: Do[object]
) -> None:
    ann = await make_user(session)
    await session.commit()
    demo, thesis, other = await asleep(session, ann), await asleep(session, ann), await asleep(session)
    await do(start(demo))
    await do(start(other))  # waits in line
    await do(start(thesis, instead_of=demo))
    assert (await view(session, thesis)).desired_state is DesiredState.RUNNING
    assert (await view(session, demo)).desired_state is DesiredState.STANDBY
    assert (await view(session, other)).is_queued


async def test_a_place_that_is_not_free_yet_leaves_everything_as_it_was(
    session: Session, do: Do[object]
) -> None:
    """A container that failed to stop keeps its place: putting it to sleep makes no room."""
    ann = await make_user(session)
    broken = await make_workspace(
        session,
        ann,
        desired_state="RUNNING",
        observed_status="RUNNING",
        error_info=(await an_error(session, terminal=True)).as_json(),
    )
    thesis = await asleep(session, ann)
    with pytest.raises(LimitReached):
        await do(start(thesis, instead_of=broken, queue=False))
    assert (await view(session, broken)).desired_state is DesiredState.RUNNING
    await do(start(thesis, instead_of=broken))
    assert (await view(session, broken)).desired_state is DesiredState.STANDBY
    assert (await view(session, thesis)).is_queued


async def test_nobody_puts_another_persons_to_sleep(session: Session, do: Do[object]) -> None:
    ann = await make_user(session, "ann")
    mine, foreign = await asleep(session, ann), await asleep(session)
    await do(start(foreign))
    person = Actor("user:ann", user_id=ann)
    for actor in (person, ADMIN):
        with pytest.raises(NotFound):
            await do(
                lambda s, actor=actor: workspaces.start(  # type: ignore[misc]
                    s, mine, actor=actor, limits=ONE, queue=True, instead_of=foreign
                )
            )
    assert (await view(session, foreign)).desired_state is DesiredState.RUNNING
    assert not (await view(session, mine)).is_queued


async def test_many_at_once_take_exactly_the_places_and_the_rest_waits(
    session: Session, do: Do[object]
) -> None:
    limits = RunningLimits(per_user=2, in_all=3)
    ids = [await asleep(session) for _ in range(9)]
    await asyncio.gather(*(do(start(each, limits)) for each in ids))
    running = [each for each in ids if (await view(session, each)).desired_state is DesiredState.RUNNING]
    assert len(running) == 3
    order = sorted(set(ids) - set(running), key=await _times(session, ids))
    served: list[UUID] = []
    while len(served) < 6:
        oldest = running.pop(0)
        await do(lambda s, oldest=oldest: workspaces.stop(s, oldest, actor=ADMIN))  # type: ignore[misc]
        admitted = cast(list[UUID], await do(admit(limits)))
        assert len(admitted) == 1
        served += admitted
        running += admitted
    assert served == order


async def _times(session: Session, ids: list[UUID]) -> Callable[[UUID], str]:
    times = {each: str((await view(session, each)).queued_at) for each in ids}
    return lambda each: times[each]


async def test_opening_the_link_of_one_that_waits_says_so(
    session: Session, session_factory: Sessions, do: Do[object]
) -> None:
    ann = await make_user(session, "ann")
    await session.commit()
    first, second = await asleep(session, ann), await asleep(session, ann)
    await do(start(first))
    service = WakeService(
        session_factory, identities=Identities(session_factory, reading=session_factory), limits=ONE
    )
    assert (await service.wake(second, ann)).result is WakeResult.LIMIT
    assert not (await view(session, second)).is_queued, "opening a link asks for nothing more than a start"
    await do(start(second))
    assert (await service.wake(second, ann)).result is WakeResult.QUEUED
