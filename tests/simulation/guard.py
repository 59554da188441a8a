"""The invariants, watched at every write, every commit and every effect.

A broken one is written down with its number, and ends the run. The product never sees this: it is told by the
simulated database, runtime and archive store what happened, and compares with what it knows of the environment
(which home a person last left, since when an archive has been nobody's, what was true when).
"""

from collections import defaultdict
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from codehub.archives.keys import ArchivePath, parse_archive_key
from codehub.domain.completion import target_of
from codehub.domain.errors import Reason
from codehub.domain.generations import ChosenArchive
from codehub.domain.limits import holds_place
from codehub.domain.states import ContainerState, DesiredState, ObservedStatus, Operation
from codehub.domain.workspace import WorkspaceView
from codehub.runtimes.base import FencingToken
from tests.simulation import rows
from tests.simulation.database import Key, Transaction
from tests.simulation.queries import WORKSPACES
from tests.simulation.queries_terms import TERMS
from tests.simulation.rows import Row
from tests.simulation.runtime import generation

if TYPE_CHECKING:
    from tests.simulation.environment import SimulatedEnvironment
    from tests.simulation.stores import StoredObject

PER_USER, IN_ALL = 2, 3
GC_DELAY = timedelta(seconds=30)
GC_INTERVAL = timedelta(seconds=15)
TIME_LIMIT = timedelta(seconds=30)  # the shortest of an operation

MAY_CLAIM: dict[Operation, Callable[[WorkspaceView], bool]] = {
    Operation.PROVISIONING: lambda ws: (
        ws.observed_status is ObservedStatus.PENDING and ws.archive_key is None
    ),
    Operation.RESTORING: lambda ws: (
        ws.archive_key is not None
        and (
            ws.observed_status is ObservedStatus.PENDING
            or (ws.observed_status is ObservedStatus.STANDBY and not ws.volume_is_trusted)
        )
    ),
    Operation.STARTING: lambda ws: ws.observed_status is ObservedStatus.STANDBY and ws.volume_is_trusted,
    Operation.STOPPING: lambda ws: ws.observed_status is ObservedStatus.RUNNING,
    Operation.ARCHIVING: lambda ws: ws.observed_status is ObservedStatus.STANDBY,
    Operation.DELETING: lambda ws: ws.deleted_at is not None,
}
"""The table of 02-states, once more: from where each operation may begin."""


class Guard:
    def __init__(self, environment: "SimulatedEnvironment") -> None:
        self._environment = environment
        self.newest: dict[UUID, int] = defaultdict(int)  # what its person last left in each home
        self._archived_for: dict[
            UUID, ChosenArchive | None
        ] = {}  # the return that the last archiving was for
        self._edits: dict[UUID, int] = defaultdict(int)
        self.left: dict[UUID, set[str]] = {}  # archives that were left for others, until the next archive
        self.rolled_back: set[UUID] = set()  # the database forgot their archive (a backup was restored)
        self._highest: dict[UUID, FencingToken] = {}
        self._last_act: dict[UUID, datetime] = {}
        self._was: dict[UUID, list[tuple[datetime, ObservedStatus]]] = defaultdict(list)
        self._nobodys_since: dict[str, datetime] = {}
        self._needed_again: dict[str, datetime] = {}  # since when, of those that had been nobody's
        self._in_vain: dict[str, list[float]] = defaultdict(list)
        self._waited: dict[UUID, tuple[FencingToken, datetime]] = {}  # for a node
        environment.database.on_write.append(self._written)
        environment.database.on_commit.append(self._committed)

    def edited(self, workspace_id: UUID) -> int:
        """The next generation of a home. Never one there was before: a person may have returned to an earlier one."""
        self._edits[workspace_id] += 1
        self.newest[workspace_id] = self._edits[workspace_id]
        return self.newest[workspace_id]

    # Told by the runtime

    def acts(self, workspace_id: UUID, token: FencingToken, method: str) -> None:
        highest = self._highest.get(workspace_id, token)
        if token < highest:
            self._environment.violate(f"1: {method} of {workspace_id} by {token}, after {highest} had acted")
        self._highest[workspace_id] = max(token, highest)
        self._last_act[workspace_id] = self._environment.database.now()

    def effect(self, workspace_id: UUID, method: str, *, before: int | None) -> None:
        """Something may have changed in the place of this workspace."""
        place = self._environment.engine.place(workspace_id)
        after, newest = generation(place.volume), self.newest[workspace_id]
        self.sighted(workspace_id)
        running = place.container is ContainerState.RUNNING
        if running and place.job is not None and not place.job.task.done():
            self._environment.violate(f"1: the container of {workspace_id} runs during a storage job")
        ws = self._environment.find(workspace_id)
        if ws is None or ws.deleted_at is not None:
            return
        if method == "start" and running and after not in (None, newest):
            self._environment.violate(
                f"2: {workspace_id} runs on generation {after} of its home, not {newest}"
            )
        if method == "provision" and before is None and after == 0:
            if self._environment.archives.committed(workspace_id):
                self._environment.violate(f"2: an empty home was made beside the archive of {workspace_id}")
            if newest:
                self._environment.violate(f"2: an empty home was made in place of that of {workspace_id}")
        self._judge_content(ws)

    def waits(self, workspace_id: UUID, token: FencingToken) -> None:
        """No node takes the container or the job, and the one who acts was told."""
        self._waited[workspace_id] = token, self._environment.database.now()

    def looked_in_vain(self, replica: str) -> None:
        """An engine that is away is asked again now and then, not in a tight circle."""
        now = self._environment.loop.time()
        recent = [at for at in self._in_vain[replica] if now - at < 1.0]
        self._in_vain[replica] = [*recent, now]
        if len(recent) > 10:
            self._environment.violate(
                f"7: {replica} asked an engine that is away {len(recent)} times in a second"
            )

    def sighted(self, workspace_id: UUID) -> None:
        """What an honest look would say now."""
        place = self._environment.engine.place(workspace_id)
        status = ObservedStatus.PENDING
        if place.container is ContainerState.RUNNING:
            status = ObservedStatus.RUNNING
        elif place.volume is not None:
            status = ObservedStatus.STANDBY
        was = self._was[workspace_id]
        if not was or was[-1][1] is not status:
            was.append((self._environment.database.now(), status))

    # Told by the archive store

    def archives_changed(self, workspace_id: UUID) -> None:
        """Keep account of since when each archive of a workspace has been nobody's.

        One that is chosen while the GC looks and given up before it looks again was nobody's in every look: its
        delay does not begin anew.
        """
        ws, now = self._environment.find(workspace_id), self._environment.database.now()
        for key in self._environment.archives.of(workspace_id):
            if ws is None or self._is_needed(ws, key):
                if key in self._nobodys_since:
                    self._needed_again.setdefault(key, now)
            elif now - self._needed_again.pop(key, now) < GC_INTERVAL:
                self._nobodys_since.setdefault(key, now)
            else:
                self._nobodys_since[key] = now

    def archive_deleted(self, path: ArchivePath) -> None:
        """Invariant 3, at the instant the meta goes."""
        ws = self._environment.find(path.workspace_id)
        now = self._environment.database.now()
        if ws is None:
            self._environment.violate(f"3: {path.key} was deleted, and it is nobody's here")
        elif self._is_needed(ws, path.key):
            self._environment.violate(f"3: {path.key} was deleted, and it is needed")
        elif now - self._nobodys_since.get(path.key, now) < GC_DELAY:
            self._environment.violate(f"3: {path.key} was deleted before its delay was over")

    def needless_archives(self, *, since: datetime | None = None) -> list[str]:
        """Invariant 5: what the GC has to remove by and by; with ``since``, what was needless by then.

        Each counts from when it became nobody's, which may be in the midst of calm: a workspace that falls
        asleep is archived anew, and only then is its older archive needless.
        """
        found = []
        now = self._environment.database.now()
        for key in self._environment.archives.objects:
            path = parse_archive_key(key)
            assert path is not None
            ws = self._environment.find(path.workspace_id)
            if ws is not None and not ws.in_error and not self._is_needed(ws, key):
                began = self._nobodys_since.setdefault(key, now)
                if since is None or began <= since:
                    found.append(key)
        return found

    def _is_needed(self, ws: WorkspaceView, key: str) -> bool:
        """An error protects too, but comes and goes: it does not begin the delay anew."""
        if self._is_copied(key):
            return True
        if ws.deleted_at is not None:
            return False
        path = parse_archive_key(key)
        assert path is not None
        named = {each.archive_key for each in ws.snapshots}
        if key in named:
            return True
        committed = self._environment.archives.committed(ws.id)
        unnamed = [each for each in committed if each not in named]
        last = max(unnamed, key=lambda each: (committed[each].committed_at, each), default=None)
        chosen = ws.restore_from.archive_key if ws.restore_from is not None else None
        return (
            key in (ws.archive_key, last, chosen) or path.op_id == ws.op_id or key in self.left.get(ws.id, ())
        )

    def _is_copied(self, key: str) -> bool:
        """Whether a copy begins with it and has no archive of its own yet, whatever became of its source."""
        return any(
            row.view.copy_of is not None
            and row.view.deleted_at is None
            and key in (row.view.archive_key, row.view.restore_from and row.view.restore_from.archive_key)
            for row in self._environment.rows()
        )

    # Told by the database

    def _written(self, transaction: Transaction, key: Key, before: Any, after: Any) -> None:
        if key[0] != WORKSPACES or not isinstance(before, Row) or not isinstance(after, Row):
            return
        old, new = before.view, after.view
        if new.version < old.version or new.op_seq < old.op_seq:
            self._environment.violate(f"4: version or op_seq of {old.id} went back")
        if new.operation is not Operation.NONE and (new.op_id is None or new.op_started_at is None):
            self._environment.violate(f"4: {new.operation} of {old.id} has no identity")
        if _is_over(old) and not _is_over(new):
            self._environment.violate(f"4: {old.id} came back from DELETED")
        if old.operation is not new.operation:
            self._judge_transition(old, new, transaction.term[1] if transaction.term is not None else 0)
        if old.observed_status is not new.observed_status:
            self._judge_observation(new)
        if old.home.volume and not new.home.volume and old.error_info is not None and not new.error_info:
            self._accept_loss(new)
        asleep = old.desired_state is DesiredState.RUNNING and new.desired_state is DesiredState.STANDBY
        if asleep and transaction.term is not None and self._environment.is_in_use(old.id):
            self._environment.violate(f"6: {old.id} was put to sleep while somebody used it")

    def _judge_transition(self, old: WorkspaceView, new: WorkspaceView, epoch: int) -> None:
        if old.operation is Operation.NONE:
            if new.op_seq != old.op_seq + 1 or not MAY_CLAIM[new.operation](old):
                self._environment.violate(f"4: {new.operation} of {old.id} was claimed from {old}")
            if new.operation is Operation.ARCHIVING:
                self._judge_patience(old)
                self._archived_for[old.id] = old.restore_from
        elif new.operation is not Operation.NONE:
            self._environment.violate(f"4: {old.operation} of {old.id} turned into {new.operation}")
        elif rows.is_terminal(new) or new.archiving_given_up or _next_try_at(new) is not None:
            self._judge_error(old, new, epoch)
        elif not self._was_true(old.id, self._target(old), since=new.op_acted_at):
            self._environment.violate(
                f"4: {old.operation} of {old.id} completed; its target was not true since"
            )
        elif new.op_acted_at is None or new.op_acted_at < self._last_act[old.id]:
            self._environment.violate(f"4: {old.operation} of {old.id} is said to have ended before it acted")

    def _judge_patience(self, old: WorkspaceView) -> None:
        """What was given up is tried again when it was promised, unless a person asks."""
        promised = _next_try_at(old)
        if old.restore_from is not None or old.snapshot_as is not None:  # a person asks
            return
        if promised is not None and self._environment.database.now() < promised:
            self._environment.violate(
                f"9: archiving {old.id} was given up, and is tried again before {promised}"
            )

    def _judge_error(self, old: WorkspaceView, new: WorkspaceView, epoch: int) -> None:
        if old.operation is Operation.DELETING:
            self._environment.violate(f"4: DELETING of {old.id} gave up")
        stays = new.restore_from is not None and new.restore_from == self._archived_for.get(old.id)
        if (
            old.operation is Operation.ARCHIVING
            and new.archiving_given_up
            and stays
            and new.volume_is_trusted
        ):
            self._environment.violate(
                f"10: archiving {old.id} was given up, and the return it was for was not"
            )
        if old.operation is Operation.ARCHIVING and rows.is_terminal(new) and new.owner_may_lift_error:
            self._environment.violate(f"9: archiving took the home of {old.id} away from its owner")
        job = self._environment.engine.place(old.id).job
        if job is not None and not job.task.done():
            self._environment.violate(f"1: {old.operation} of {old.id} gave up, and its storage job goes on")
        error = new.error_info
        if error is not None and error.reason is Reason.TIMEOUT:
            self._judge_timeout(old, epoch)
        alone = self._environment.chaos.kinds & {"effect", "store", "job", "half"}
        if error is not None and error.context.get("last_reason") == Reason.UNREACHABLE and not alone:
            self._environment.violate(f"7: {old.id} went into error because an engine was away: {error}")

    def _judge_timeout(self, old: WorkspaceView, epoch: int) -> None:
        """Waiting for a node uses up no time limit but its own, as far as this leader knows of the waiting."""
        token, waited_at = self._waited.get(old.id, (None, None))
        if waited_at is None or token != FencingToken(old.op_seq, epoch):
            return
        if self._environment.database.now() - waited_at < TIME_LIMIT:
            self._environment.violate(f"7: {old.operation} of {old.id} timed out while it waited for a node")

    def _judge_observation(self, new: WorkspaceView) -> None:
        """Nothing is written down that was not so at some moment since the look began."""
        status = new.observed_status
        wanted = ObservedStatus.PENDING if status is ObservedStatus.DELETED else status
        if not self._was_true(new.id, {wanted}, since=new.observed_at):
            self._environment.violate(f"4: {new.id} was said to be {status}, and was not")

    def _accept_loss(self, ws: WorkspaceView) -> None:
        """A person was told that the volume vanished and goes on without it: the archive is the home."""
        if self._environment.engine.place(ws.id).volume is None:
            self._environment.engine.hidden.pop(ws.id, None)
            archive = self._archives_of(ws).get(ws.archive_key or "")
            self.newest[ws.id] = (generation(archive.files) or 0) if archive is not None else 0

    @staticmethod
    def _target(ws: WorkspaceView) -> set[ObservedStatus]:
        target = target_of(ws)
        gone = target is ObservedStatus.DELETED or ws.deleted_at is not None
        return {target, ObservedStatus.PENDING} if gone else {target}

    def _was_true(self, workspace_id: UUID, wanted: set[ObservedStatus], *, since: datetime | None) -> bool:
        """Whether the environment looked like that at some moment from ``since`` on."""
        if since is None:
            return False
        current = ObservedStatus.PENDING
        for at, status in self._was[workspace_id]:
            if at > since and current in wanted:
                return True
            current = status
        return current in wanted

    def _committed(self, transaction: Transaction, before: dict[Key, Any]) -> None:
        if transaction.term is not None and before:
            name, epoch = transaction.term
            term = self._environment.database.get(None, TERMS, name)
            if term.epoch != epoch:
                self._environment.violate(
                    f"1: a transaction of {name}'s epoch {epoch} committed in {term.epoch}"
                )
        for (table, key), old in before.items():
            if table != WORKSPACES:
                continue
            row = self._environment.database.get(None, WORKSPACES, key)
            self._judge_limits(old, row)
            if old is not None:
                self._judge_archive(old.view, row.view)
                self._judge_snapshot(old.view, row.view)
            self._judge_content(row.view)
            self.archives_changed(key)
            if row.view.copy_of is not None:
                self.archives_changed(row.view.copy_of.workspace_id)
            if old is None or old.view.version != row.view.version:
                self._environment.database.notify(rows.notice(old, row))
                self._environment.say(_told(old, row))

    def _judge_archive(self, old: WorkspaceView, new: WorkspaceView) -> None:
        """A person returns to an earlier archive: what they leave is in an archive, and is kept like a new one."""
        switched = old.operation is Operation.NONE and old.archive_key != new.archive_key
        if not switched:
            if old.archive_key != new.archive_key:  # a new archive: one generation is kept
                self.left.pop(new.id, None)
            return
        committed = self._archives_of(new)
        newest = self.newest[new.id]
        if old.restore_from is None or new.archive_key != old.restore_from.archive_key:
            self._environment.violate(f"10: {new.id} was switched to an archive that nobody chose")
        if newest and not any(generation(each.files) == newest for each in committed.values()):
            self._environment.violate(
                f"10: generation {newest} of {new.id} was left without an archive of it"
            )
        chosen = committed.get(new.archive_key or "")
        if chosen is None:
            self._environment.violate(f"10: {new.id} was switched to an archive that is gone")
            return
        if old.archive_key is not None:
            self.left.setdefault(new.id, set()).add(old.archive_key)
        self.left.get(new.id, set()).discard(new.archive_key or "")
        self.rolled_back.discard(new.id)
        self.newest[new.id] = generation(chosen.files) or 0

    def _archives_of(self, ws: WorkspaceView) -> "dict[str, StoredObject]":
        """Its archives, and of a copy those of its source."""
        own = self._environment.archives.committed(ws.id)
        return (
            own if ws.copy_of is None else self._environment.archives.committed(ws.copy_of.workspace_id) | own
        )

    def _judge_snapshot(self, old: WorkspaceView, new: WorkspaceView) -> None:
        """A snapshot is the home as its person last left it, and its archive is there."""
        known = {each.id for each in old.snapshots}
        for each in new.snapshots:
            stored = self._archives_of(new).get(each.archive_key)
            if stored is None:
                self._environment.violate(f"11: the archive of a snapshot of {new.id} is gone")
            elif (
                each.id not in known
                and old.snapshot_as is not None
                and old.operation is Operation.ARCHIVING
                and generation(stored.files) != self.newest[new.id]
            ):
                self._environment.violate(f"11: a snapshot of {new.id} is not its home")

    def _judge_limits(self, old: Row | None, row: Row) -> None:
        """Invariant 6: whoever is given a place finds one. (One that fails to stop may take its own back.)"""
        ws = row.view
        if ws.desired_state is not DesiredState.RUNNING or (old is not None and holds_place(old.view)):
            return
        if old is not None and old.view.desired_state is DesiredState.RUNNING:
            return
        holders = [each.view for each in self._environment.rows() if holds_place(each.view)]
        mine = sum(1 for each in holders if each.owner_id == ws.owner_id)
        if mine > PER_USER or len(holders) > IN_ALL:
            self._environment.violate(f"6: {mine} of one person and {len(holders)} in all hold a place")

    def _judge_content(self, ws: WorkspaceView) -> None:
        """Invariant 2: what a person last left in the home is somewhere, and the row knows where."""
        newest = self.newest[ws.id]
        if ws.deleted_at is not None or newest == 0:
            return
        engine = self._environment.engine
        if newest in (generation(engine.place(ws.id).volume), generation(engine.hidden.get(ws.id))):
            return
        committed = self._archives_of(ws)
        if ws.id in self.rolled_back:
            if not any(generation(each.files) == newest for each in committed.values()):
                self._environment.violate(f"2: the only copy of {ws.id} is gone")
        elif ws.archive_key not in committed or generation(committed[ws.archive_key].files) != newest:
            self._environment.violate(f"2: generation {newest} of the home of {ws.id} is lost")


def _next_try_at(ws: WorkspaceView) -> datetime | None:
    promised = ws.error_info.context.get("next_try_at") if ws.error_info is not None else None
    return datetime.fromisoformat(promised) if promised is not None else None


def _is_over(ws: WorkspaceView) -> bool:
    return ws.observed_status is ObservedStatus.DELETED and ws.operation is Operation.NONE


def _told(old: Row | None, row: Row) -> str:
    ws = row.view
    before = rows.status(old.view) if old is not None else "nothing"
    error = f" error {ws.error_info.reason} {ws.error_info.message}" if ws.error_info else ""
    return (
        f"row {ws.id}: {before} → {rows.status(ws)}, wants {ws.desired_state}, seen {ws.observed_status}, "
        f"{ws.operation} #{ws.op_seq}{error}"
    )
