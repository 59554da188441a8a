"""Scripts of two sessions for ``test_parity_interleaved.py``: what coordinators and people do, in steps.

Two workspaces: ``AT_REST`` is stopped and wanted running, ``IN_FLIGHT`` is being started. Its claim is known to
every script, as to the leader that made it and to one that took over. The term is number 1.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from codehub.domain.busy import Busy, BusySign, BusyWith
from codehub.domain.errors import ErrorInfo, Reason
from codehub.domain.generations import ChosenArchive
from codehub.domain.snapshots import WantedSnapshot
from codehub.domain.states import DesiredState, HealthStatus, ObservedStatus, Operation
from codehub.domain.workspace import HomeContext
from codehub.store.workspaces.bulk_claims import Completion
from codehub.store.workspaces.bulk_claims import Step as Claiming
from codehub.store.workspaces.claims import ClaimedOperation
from codehub.store.workspaces.observations import Observed
from tests.integration.store.interleaving import LOCK, OWNER, Party, Script, Side, Step

AT_REST, IN_FLIGHT, NEW_A, NEW_B = (UUID(int=number, version=4) for number in (1, 2, 3, 4))
HOME = HomeContext(volume=True)
CHOSEN = ChosenArchive("key", datetime(2030, 1, 1, tzinfo=UTC))
WANTED = WantedSnapshot(UUID(int=71), "kept", CHOSEN.created_at)
EARLIER = timedelta(seconds=1)
LATER = timedelta(hours=1)


async def prepare(side: Side) -> Any:
    """The same rows in both databases, made by the store itself."""
    store = side.store
    async with side.transaction() as session:
        await store.acquire_term(session, LOCK, "first")
        for each, name in ((AT_REST, "at-rest"), (IN_FLIGHT, "in-flight")):
            wanted = DesiredState.RUNNING
            await store.create(
                session, workspace_id=each, owner_id=OWNER, name=name, image_ref="image", desired_state=wanted
            )
    async with side.transaction() as session:
        at = await store.now(session)
        stopped = [Observed(each, ObservedStatus.STANDBY, HealthStatus.OK) for each in (AT_REST, IN_FLIGHT)]
        await store.write_observations(session, stopped, observed_at=at)
        for each in (AT_REST, IN_FLIGHT):
            found = await store.find(session, each)
            await store.mark_home(session, found.view, home=HOME)
        view = (await store.find(session, IN_FLIGHT)).view
        claimed = await store.claim_all(session, [Claiming(view, Operation.STARTING, HOME)])
        await store.replace_seen(session, ["a", "b"])
        views = {each: (await store.find(session, each)).view for each in (AT_REST, IN_FLIGHT)}
        at = await store.now(session)
    return views, {IN_FLIGHT: ClaimedOperation.of(claimed[IN_FLIGHT])}, at


def an_error(party: Party, *, terminal: bool = False) -> ErrorInfo:
    return ErrorInfo(Reason.ACTION_FAILED, "no", terminal, Operation.STARTING, 1, party.at)


async def commit(party: Party) -> None:
    await party.session.commit()


async def rollback(party: Party) -> None:
    await party.session.rollback()


def call(name: str, /, *args: Any, **kwargs: Any) -> Step:
    """A statement. An argument that is a function is asked when its turn comes."""
    return lambda party: party.statement(name, *_asked(party, args), **_asked_named(party, kwargs))


def fenced(epoch: int, name: str, /, *args: Any, **kwargs: Any) -> Step:
    """A leader's single statement, which commits by itself."""
    return lambda party: party.fenced(epoch, name, *_asked(party, args), **_asked_named(party, kwargs))


def _asked(party: Party, args: tuple[Any, ...]) -> list[Any]:
    return [each(party) if callable(each) else each for each in args]


def _asked_named(party: Party, kwargs: dict[str, Any]) -> dict[str, Any]:
    return {name: each(party) if callable(each) else each for name, each in kwargs.items()}


def read(workspace_id: UUID) -> Step:
    """What a plan is made from, in a transaction that ends at once."""

    async def step(party: Party) -> Any:
        found = await party.statement("find", workspace_id)
        await party.session.rollback()
        party.views[workspace_id] = found.view
        if found.view.operation is not Operation.NONE:
            party.claims[workspace_id] = ClaimedOperation.of(found.view)
        return found.view

    return step


def _both(first: Step, second: Step) -> Step:
    """Two statements of which nothing of interest can come in between: fewer orders to play."""

    async def step(party: Party) -> Any:
        return [await first(party), await second(party)]

    return step


def _start(each: UUID) -> Callable[[Party], Any]:
    return lambda party: [Claiming(party.views[each], Operation.STARTING, HOME)]


def _start_both(party: Party) -> Any:
    return [Claiming(party.views[each], Operation.STARTING, HOME) for each in (AT_REST, IN_FLIGHT)]


def _at_rest(party: Party) -> Any:
    return party.views[AT_REST]


def _claim(party: Party) -> ClaimedOperation:
    return party.claims[IN_FLIGHT]


def _done(party: Party) -> Any:
    return [Completion(_claim(party), HOME, party.at)]


def _seen(each: UUID, status: ObservedStatus) -> list[Observed]:
    return [Observed(each, status, HealthStatus.OK)]


def _at(party: Party) -> Any:
    return party.at


def _later(party: Party) -> Any:
    return party.at + LATER


RUNNING, GONE = ObservedStatus.RUNNING, ObservedStatus.PENDING
OBSERVED_BOTH = _seen(AT_REST, RUNNING) + _seen(IN_FLIGHT, RUNNING)
_claiming = call("claim_all", _start(AT_REST))
_failing = call("record_failure", _claim, an_error, home=HOME)
_completing = call("complete_all", _done)
_stopping = call("set_desired", AT_REST, DesiredState.STANDBY, expected=DesiredState.RUNNING)
_leading = call("acquire_term", LOCK, "successor")
_holding = call("hold_term", LOCK, 1)

ROWS_AT_REST: dict[str, Script] = {
    "claims": (read(AT_REST), _claiming, commit),
    "claims, in vain": (read(AT_REST), _claiming, rollback),
    "claims in one statement": (read(AT_REST), fenced(1, "claim_all", _start(AT_REST))),
    "claims both": (call("lock_in_order", [AT_REST, IN_FLIGHT]), call("claim_all", _start_both), commit),
    "is stopped": (call("find_locked", AT_REST), _stopping, commit),
    "is stopped, in vain": (_stopping, rollback),
    "is deleted": (call("mark_deleted", AT_REST), commit),
    "is edited": (call("find_locked", AT_REST), call("update_details", AT_REST, memo="new"), commit),
    "observes": (call("write_observations", _seen(AT_REST, RUNNING), observed_at=_at), commit),
    "observes later": (call("write_observations", _seen(AT_REST, GONE), observed_at=_later), commit),
    "stamps coarsely": (call("stamp_coarse", observed_at=_later, older_than=_at), commit),
    "is to return": (call("find_locked", AT_REST), call("set_restore_from", AT_REST, CHOSEN), commit),
    "wants a snapshot": (
        call("find_locked", AT_REST),
        call("set_snapshots", AT_REST, wanted=WANTED, made=()),
        commit,
    ),
    "switches": (
        read(AT_REST),
        call("switch_archive", _at_rest, archive_key="key", home=HomeContext()),
        commit,
    ),
    "marks": (read(AT_REST), call("mark_home", _at_rest, home=HomeContext()), commit),
}

ROWS_IN_FLIGHT: dict[str, Script] = {
    "completes": (_completing, commit),
    "completes, in vain": (_completing, rollback),
    "completes and claims": (
        call("lock_in_order", [AT_REST, IN_FLIGHT]),
        _both(_completing, _claiming),
        commit,
    ),
    "fails": (_failing, commit),
    "fails after a look": (read(IN_FLIGHT), _failing, commit),
    "is to return": (call("set_restore_from", IN_FLIGHT, CHOSEN), commit),
    "wants a snapshot": (call("set_snapshots", IN_FLIGHT, wanted=WANTED, made=()), commit),
    "gives up for a while": (
        call("release", _claim, an_error, home=HOME, return_given_up=CHOSEN.archive_key),
        commit,
    ),
    "gives up": (call("go_terminal", _claim, lambda p: an_error(p, terminal=True)), commit),
    "catches up": (call("catch_up", _claim, seen_op_seq=7), commit),
    "commits an archive": (call("commit_archive_key", _claim, "key", home=HOME), commit),
    "holds": (call("holds", _claim), rollback),
    "observes both": (call("write_observations", OBSERVED_BOTH, observed_at=_at), commit),
    "stamps": (call("stamp_in_flight", [IN_FLIGHT], observed_at=_later), commit),
    "stamps coarsely": (call("stamp_coarse", observed_at=_later, older_than=_at), commit),
    "finds it broken": (call("set_invariant_error", IN_FLIGHT, an_error), commit),
    "recovers": (call("find_locked", IN_FLIGHT), call("recover", IN_FLIGHT, home=HOME), commit),
    "touches": (call("touch", [IN_FLIGHT]), commit),
    "is busy": (call("set_busy", IN_FLIGHT, lambda p: Busy(BusySign(BusyWith.CPU), p.at, p.at)), commit),
}

TERMS: dict[str, Script] = {
    "takes over": (_leading, commit),
    "takes over, in vain": (_leading, rollback),
    "leads": (_holding, _claiming, commit),
    "leads, in vain": (_holding, _claiming, rollback),
    "writes": (fenced(1, "claim_all", _start(AT_REST)), fenced(1, "mark_home", _at_rest, home=HOME)),
    "reads": (fenced(1, "load_in_flight", retried_before=_at), fenced(1, "last_tick_at", LOCK)),
    "records a tick": (fenced(1, "record_tick", LOCK, detail={"n": 1}),),
    "records an error": (_holding, call("record_error", LOCK, "no"), commit),
    "is stopped": (_stopping, commit),
}

NAMES: dict[str, Script] = {
    "creates": (
        call("create", workspace_id=NEW_A, owner_id=OWNER, name="at-rest-2", image_ref="image"),
        commit,
    ),
    "creates the same": (
        call("create", workspace_id=NEW_B, owner_id=OWNER, name="at-rest-2", image_ref="image"),
        commit,
    ),
    "creates, in vain": (
        call("create", workspace_id=NEW_B, owner_id=OWNER, name="at-rest-2", image_ref="image"),
        rollback,
    ),
    "renames": (call("find_locked", AT_REST), call("update_details", AT_REST, name="at-rest-2"), commit),
    "creates the old name": (
        call("create", workspace_id=NEW_B, owner_id=OWNER, name="at-rest", image_ref="image"),
        commit,
    ),
    "is deleted": (call("mark_deleted", AT_REST), commit),
    "is deleted, in vain": (call("mark_deleted", AT_REST), rollback),
    "is locked": (call("find_locked", AT_REST), commit),
}


def _takes_a_place(each: UUID, desired: DesiredState) -> Script:
    return (
        call("lock_limits"),
        _both(call("usage_for", OWNER, actor="user:a", cause="b"), call("set_desired", each, desired)),
        commit,
    )


LIMITS: dict[str, Script] = {
    "takes a place": _takes_a_place(AT_REST, DesiredState.RUNNING),
    "gives one back": _takes_a_place(AT_REST, DesiredState.PENDING),
    "waits for one": (call("lock_limits"), call("set_queued", AT_REST, queued=True), commit),
    "waits no more": (call("find_locked", AT_REST), call("set_queued", AT_REST, queued=False), commit),
    "admits": (
        call("lock_limits"),
        call("load_start_queue"),
        call("set_desired", AT_REST, DesiredState.RUNNING),
        commit,
    ),
    "counts": (call("running_of", OWNER), call("load_start_queue"), commit),
}

ORPHANS: dict[str, Script] = {
    "sees others": (call("replace_seen", ["b", "c"]), commit),
    "sees none": (call("replace_seen", []), commit),
    "sees others, in vain": (call("replace_seen", ["c", "d"]), rollback),
    "forgets": (call("forget", ["a", "b"]), commit),
    "asks": (call("orphans_among", ["a", "c"]), commit),
}
