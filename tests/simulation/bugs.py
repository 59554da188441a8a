"""Planted bugs: what the product would be without one of its rules. Each must be found by some seed.

They are put in from outside, for the length of a ``with``; the product has no switch for any of them.
``faults`` names those without which the bug does no harm, with their rates: the hunt has these alone.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from codehub.coordinators import archive_gc, event_listener, observer, queue_admission, ttl_manager
from codehub.coordinators.reconciler import actions, breakers, executions, worker
from codehub.domain import completion, home, plan, start_queue, tick_plan
from codehub.domain.errors import EffectError
from codehub.domain.generations import ChosenArchive
from codehub.domain.limits import RunningLimits
from codehub.domain.retention import Sorted, StoredAttempt
from codehub.domain.start_queue import Queued, StartQueue
from codehub.domain.states import ObservedStatus, Operation
from codehub.domain.workspace import HomeContext, WorkspaceView
from codehub.runtimes.base import Observation, StorageJob, StorageKind
from codehub.services import places
from codehub.store.workspaces.claims import ClaimedOperation
from tests.simulation import queries, queries_rows, queries_terms, rows, runtime, store
from tests.support.fake_runtime import FakeRuntime

Patch = tuple[Any, str, Any]


@dataclass(frozen=True)
class Bug:
    name: str
    patches: Callable[[], list[Patch]]
    faults: Mapping[str, float]

    @contextmanager
    def planted(self) -> Iterator[None]:
        undo = []
        for holder, name, value in self.patches():
            undo.append((holder, name, getattr(holder, name)))
            setattr(holder, name, value)
        try:
            yield
        finally:
            for holder, name, value in reversed(undo):
                setattr(holder, name, value)


def _bug(**faults: float) -> Callable[[Callable[[], list[Patch]]], Bug]:
    def make(patches: Callable[[], list[Patch]]) -> Bug:
        return Bug(patches.__name__.replace("_", " "), patches, faults)

    return make


async def _answer(value: object) -> object:
    return value


def _always(value: object) -> Callable[..., Awaitable[object]]:
    return lambda *_, **__: _answer(value)


# Fences


@_bug(swap=0.02)
def no_epoch_fence() -> list[Patch]:
    lasts = queries_terms.term_lasts

    async def term_lasts(session: Any, lock_name: str, epoch: int, *, lock: bool) -> bool:
        await lasts(session, lock_name, epoch, lock=lock)
        return True

    return [(queries_terms, "term_lasts", term_lasts)]


@_bug(slow=0.1, swap=0.05)
def no_token_check() -> list[Patch]:
    return [(runtime.Backend, "check_tokens", False)]


@_bug()
def a_claim_does_not_compare() -> list[Patch]:
    return [(queries, "_as_planned", lambda _: lambda row: row.view.operation is Operation.NONE)]


# Data


@_bug()
def deleted_before_committed() -> list[Patch]:
    async def archive(self: actions.Actions, call: actions.Call) -> actions.Effect:
        await self._stop(call)
        job = StorageJob(StorageKind.ARCHIVE, call.ws.id, self._op_id(call))
        done = await self._runtime.run_storage_job(job, token=call.token, on_progress=call.on_progress)
        await self._runtime.delete_volume(call.ws.id, token=call.token)
        return actions.Archived(done.archive_key, {})

    return [(actions.Actions, "_archive", archive)]


@_bug()
def trust_kept_at_archive_commit() -> list[Patch]:
    async def commit(session: Any, claim: ClaimedOperation, archive_key: str, *, home: HomeContext) -> bool:
        kept = replace(home, restore_marker=archive_key)
        return await queries.commit_archive_key(session, claim, archive_key, home=kept)

    return [(store, "commit_archive_key", commit)]


@_bug()
def the_checksum_of_another_archive_is_kept() -> list[Patch]:
    committed = home.at_archive_commit

    def commit(kept: HomeContext, **fields: Any) -> HomeContext:
        return committed(kept, **(fields | {"sha256": "of another one"}))

    return [(home, "at_archive_commit", commit)]


@_bug(job=0.3)
def archiving_gives_up_for_good() -> list[Patch]:
    async def release(
        session: Any, claim: ClaimedOperation, error: Any, *, home: HomeContext, **_: object
    ) -> bool:
        del home
        return await queries.go_terminal(session, claim, replace(error, is_terminal=True))

    return [(store, "release", release)]


@_bug(job=0.3)
def archiving_is_tried_again_at_once() -> list[Patch]:
    return [(home, "at_archiving_given_up", lambda kept, **_: kept)]


@_bug(half=0.02)
def untrusted_volumes_are_trusted() -> list[Patch]:
    return [(WorkspaceView, "volume_is_trusted", property(lambda _: True))]


@_bug(unmount=0.02)
def no_volume_mark() -> list[Patch]:
    return [(home, "is_unmarked", lambda _: False), (home, "marked", lambda kept: kept)]


@_bug(rollback=0.02)
def provisioning_does_not_look_for_archives() -> list[Patch]:
    async def provision(self: actions.Actions, call: actions.Call) -> actions.Effect:
        await self._runtime.provision(call.ws.id, token=call.token)
        return actions.Acted()

    return [(actions.Actions, "_provision", provision)]


# Returning to an earlier archive


@_bug()
def a_home_is_left_before_it_is_archived() -> list[Patch]:
    original = plan._plan_return

    def at_once(ws: WorkspaceView, chosen: ChosenArchive) -> plan.Decision:
        asleep = ws.observed_status is ObservedStatus.STANDBY
        return plan.SwitchArchive(chosen) if asleep else original(ws, chosen)

    return [(plan, "_plan_return", at_once)]


@_bug()
def a_return_is_never_over() -> list[Patch]:
    async def switch(session: Any, workspace: WorkspaceView, *, archive_key: str, home: HomeContext) -> bool:
        switched = await queries.switch_archive(session, workspace, archive_key=archive_key, home=home)
        if switched and workspace.restore_from is not None:
            await queries_rows.set_restore_from(session, workspace.id, workspace.restore_from)
        return switched

    return [(store, "switch_archive", switch)]


@_bug()
def the_checksum_stays_that_of_the_archive_before() -> list[Patch]:
    switched = home.at_switch

    def at_switch(ws: WorkspaceView, chosen: ChosenArchive) -> HomeContext:
        return replace(switched(ws, chosen), archive_sha256=ws.home.archive_sha256)

    return [(home, "at_switch", at_switch)]


@_bug(job=0.3)
def a_failed_archive_leaves_the_wish_to_return() -> list[Patch]:
    async def release(
        session: Any,
        claim: ClaimedOperation,
        error: Any,
        *,
        home: HomeContext,
        return_given_up: str | None = None,
    ) -> bool:
        del return_given_up
        return await queries.release(session, claim, error, home=home)

    return [(store, "release", release)]


# Observation and completion


@_bug(slow=0.02, container=0.02, hints=0.02, session=0.02)
def no_fresh_look_needed() -> list[Patch]:
    decide, complete = plan._plan_effect, completion.is_complete
    long_ago = datetime.min.replace(tzinfo=UTC)

    def plan_effect(ws: WorkspaceView, *, acted_at: datetime, **rest: Any) -> plan.Decision:
        return decide(ws, acted_at=long_ago, **rest)

    def is_complete(ws: WorkspaceView) -> bool:
        return complete(replace(ws, op_acted_at=ws.op_acted_at and long_ago))

    return [(plan, "_plan_effect", plan_effect), (completion, "is_complete", is_complete)]


@_bug(container=0.02)
def an_action_has_ended_before_it_began() -> list[Patch]:
    read = worker.Worker._read_end

    async def read_end(
        self: worker.Worker, ended: Sequence[ClaimedOperation]
    ) -> Mapping[ClaimedOperation, datetime]:
        return {claim: at - timedelta(hours=1) for claim, at in (await read(self, ended)).items()}

    return [(worker.Worker, "_read_end", read_end)]


@_bug(engine=0.02)
def a_failed_look_says_nothing_is_there() -> list[Patch]:
    async def observe(self: runtime.Runtime, ids: Collection[UUID] | None = None) -> Observation:
        try:
            return await FakeRuntime.observe(self, ids)
        except EffectError:
            return Observation()

    return [(runtime.Runtime, "observe", observe)]


@_bug(session=0.02)
def deleted_is_final_at_once() -> list[Patch]:
    gone = ObservedStatus.DELETED
    watched = rows.watched
    return [
        (rows, "not_final", lambda ws: ws.observed_status is not gone),
        (rows, "watched", lambda ws: ws.observed_status is not gone and watched(ws)),
    ]


@_bug(engine=0.02)
def a_failed_look_is_repeated_at_once() -> list[Patch]:
    return [(observer.Observer, "next_wait_seconds", lambda _: 0.0)]


# Work


@_bug(crash=0.02)
def no_adoption() -> list[Patch]:
    original = plan.plan

    def without(*args: Any, **kwargs: Any) -> plan.Decision:
        decision = original(*args, **kwargs)
        adopts = isinstance(decision, plan.Act) and decision.kind is plan.ActKind.ADOPT
        return plan.Wait("somebody does it") if adopts else decision

    return [(tick_plan, "plan", without)]


@_bug()
def leaking_slots() -> list[Patch]:
    start = executions.Executions.start

    def leak(self: Any, ws: WorkspaceView, work: Any, *, lane: Any) -> None:
        async def fails_to_give_back(execution: Any) -> Any:
            outcome = await work(execution)
            if execution.op_id is not None and execution.op_id.int % 3 == 0:
                self._slots[lane] -= 1
            return outcome

        start(self, ws, fails_to_give_back, lane=lane)

    return [(executions.Executions, "start", leak)]


@_bug(cut=0.4)
def a_cut_action_keeps_its_slot() -> list[Patch]:
    start = executions.Executions.start

    def leak(self: Any, ws: WorkspaceView, work: Any, *, lane: Any) -> None:
        async def fails_to_give_back(execution: Any) -> Any:
            try:
                return await work(execution)
            except asyncio.CancelledError:
                self._slots[lane] -= 1
                raise

        start(self, ws, fails_to_give_back, lane=lane)

    return [(executions.Executions, "start", leak)]


@_bug(engine=0.02)
def no_breaker() -> list[Patch]:
    return [(breakers.CircuitBreakers, "is_outage", _always(False))]


@_bug(node=1.0)
def waiting_for_a_node_uses_up_the_time_limit() -> list[Patch]:
    call = worker.Worker._call

    async def ignore(_reason: str | None) -> None: ...

    def counts(self: worker.Worker, ws: WorkspaceView, execution: executions.Execution) -> actions.Call:
        return replace(call(self, ws, execution), on_wait=ignore)

    return [(worker.Worker, "_call", counts)]


@_bug(crash=0.01, effect=0.3, hang=0.1)
def jobs_are_not_confirmed_gone() -> list[Patch]:
    return [(actions.Actions, "abandon", _always(None))]


@_bug(slow=0.03)
def places_are_counted_without_a_lock() -> list[Patch]:
    return [(store, "lock_limits", _always(None))]


@_bug()
def a_queued_one_overtakes() -> list[Patch]:
    def newest_first(queue: StartQueue, limits: RunningLimits) -> list[Queued]:
        free = limits.in_all - queue.held_in_all
        return sorted(start_queue.admissible(queue, replace(limits, in_all=1000)), key=_since)[::-1][:free]

    return [(places, "admissible", newest_first), (queue_admission, "admissible", newest_first)]


@_bug()
def a_newcomer_overtakes_the_queue() -> list[Patch]:
    """With a TTL manager that looks seldom: the harm is done between two looks."""
    return [(places, "exceeded_behind", lambda *_, **__: None), (ttl_manager, "LOOK_SECONDS", 15.0)]


@_bug()
def a_place_is_given_twice() -> list[Patch]:
    def one_more(queue: StartQueue, limits: RunningLimits) -> list[Queued]:
        return start_queue.admissible(replace(queue, held_in_all=queue.held_in_all - 1), limits)

    return [(places, "admissible", one_more), (queue_admission, "admissible", one_more)]


@_bug()
def nobody_looks_at_the_queue() -> list[Patch]:
    return [(queue_admission.QueueAdmission, "look", _always(0))]


def _since(queued: Queued) -> datetime:
    return queued.since


@_bug()
def work_is_no_use() -> list[Patch]:
    return [(ttl_manager.TtlManager, "_without_busy", lambda _, idle, **__: _answer(idle))]


# Archives and events


@_bug()
def gc_without_protection() -> list[Patch]:
    def sort(attempts: Collection[StoredAttempt], owners: Any, **_: Any) -> Sorted:
        return Sorted({}, tuple(each for each in attempts if each.workspace_id in owners), ())

    return [(archive_gc, "sort_archives", sort), (archive_gc, "_is_still_orphaned", lambda *_: True)]


@_bug()
def gc_without_delay() -> list[Patch]:
    return [(archive_gc, "may_delete", lambda **_: True)]


@_bug(session=0.02)
def no_resync_after_election() -> list[Patch]:
    original = event_listener.EventListener.on_elected

    async def on_elected(self: Any) -> None:
        await original(self)
        self._resync_pending = False

    return [(event_listener.EventListener, "on_elected", on_elected)]


BUGS = [value for value in list(globals().values()) if isinstance(value, Bug)]
