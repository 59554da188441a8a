"""Waking by opening an address: in whose name, with which limits, and how each refusal is told."""

from uuid import UUID, uuid4

import pytest
from sqlalchemy import Text

from codehub.domain.limits import RunningLimits
from codehub.domain.states import DesiredState
from codehub.domain.waking import ErrorNote, WakeResult
from codehub.services.identity import Identities
from codehub.services.waking import WakeService
from codehub.store.db.session import Session, Sessions
from codehub.store.db.typed_text import typed_text
from tests.integration.store.factory import an_error, make_user, make_workspace, view


@pytest.fixture
async def ann(session: Session) -> UUID:
    user_id = await make_user(session, "ann")
    await session.commit()
    return user_id


def waking(sessions: Sessions, *, per_user: int = 10, in_all: int = 10) -> WakeService:
    limits = RunningLimits(per_user=per_user, in_all=in_all)
    return WakeService(sessions, identities=Identities(sessions, reading=sessions), limits=limits)


async def test_a_sleeping_workspace_is_wanted_running_because_its_link_was_opened(
    session_factory: Sessions, session: Session, ann: UUID
) -> None:
    workspace_id = await make_workspace(session, ann, observed_status="STANDBY", desired_state="STANDBY")
    service = waking(session_factory)
    for _ in range(2):  # idempotent
        assert (await service.wake(workspace_id, ann)).result is WakeResult.WAKING
    assert (await view(session, workspace_id)).desired_state is DesiredState.RUNNING
    events = typed_text(
        "SELECT actor, cause FROM workspace_events WHERE workspace_id = :id AND actor IS NOT NULL",
        Text(),
        Text(),
    )
    found = await session.exec(events, {"id": workspace_id})
    assert [(actor, "link" in cause.lower()) for actor, cause in found] == [("user:ann", True)]


@pytest.mark.parametrize(("limits", "is_global"), [({"per_user": 1}, False), ({"in_all": 1}, True)])
async def test_a_full_limit_names_what_runs(
    session_factory: Sessions, session: Session, ann: UUID, limits: dict[str, int], is_global: bool
) -> None:
    other = await make_workspace(session, ann, name="other", desired_state="RUNNING")
    workspace_id = await make_workspace(session, ann, desired_state="STANDBY")
    outcome = await waking(session_factory, **limits).wake(workspace_id, ann)
    assert (outcome.result, outcome.allowed, outcome.is_global) == (WakeResult.LIMIT, 1, is_global)
    assert [(each.id, each.name) for each in outcome.running] == [(other, "other")]
    assert (await view(session, workspace_id)).desired_state is DesiredState.STANDBY


async def test_an_error_is_told_and_not_lifted(
    session_factory: Sessions, session: Session, ann: UUID
) -> None:
    error = await an_error(session, terminal=True)
    workspace_id = await make_workspace(
        session, ann, desired_state="RUNNING", error_info=error.as_json(), health_status="ERROR"
    )
    outcome = await waking(session_factory).wake(workspace_id, ann)
    assert outcome.result is WakeResult.ERROR
    assert outcome.error == ErrorNote(error.reason.value, error.message)
    assert (await view(session, workspace_id)).in_error


async def test_what_is_gone_foreign_or_unknown_is_the_same(
    session_factory: Sessions, session: Session, ann: UUID
) -> None:
    mine = await make_workspace(session, ann, desired_state="STANDBY")
    foreign = await make_workspace(session, desired_state="STANDBY")
    service = waking(session_factory)
    for workspace_id, user_id in ((foreign, ann), (uuid4(), ann), (mine, uuid4())):
        assert (await service.wake(workspace_id, user_id)).result is WakeResult.GONE
    assert (await view(session, foreign)).desired_state is DesiredState.STANDBY
    assert (await view(session, mine)).desired_state is DesiredState.STANDBY
