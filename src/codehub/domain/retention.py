"""Sort stored archives into protected, orphaned and unknown: the GC's rule.

Only orphans are ever deleted, and only when the GC has seen them orphaned in two cycles, the first longer
than the delay ago. An archive of a workspace that is not in the database is unknown, and kept.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from uuid import UUID

from codehub.domain.generations import Generations, left_within


class Protection(StrEnum):
    """Why an archive is kept. The first that applies is named."""

    CURRENT = "it is the data"
    CHOSEN = "its person chose to return to it"
    SNAPSHOT = "its person keeps it"
    COPIED = "a copy of the workspace needs it"
    OPERATION = "in progress, or kept by an error"
    ERROR = "recovery needs it"
    GENERATION = "one of the newest generations"
    THINNED = "the newest of its day or week"
    LEFT = "current until its person returned to an earlier one"
    ONLY_COPY = "the only copy: neither a volume nor an archive key"


@dataclass(frozen=True)
class Thinning:
    """How older generations thin out, beyond the newest ones: the newest of each day, then of each week.

    Counted are days and ISO weeks, in UTC, in which something was archived, from the newest on. 0: none.
    """

    days: int = 0
    weeks: int = 0


NO_THINNING = Thinning()


@dataclass(frozen=True)
class StoredAttempt:
    """One attempt in the store: the object, its meta, or both."""

    key: str  # path of the object, whether or not it is there
    workspace_id: UUID
    op_id: UUID
    committed: bool  # meta is there too
    stored_at: datetime


@dataclass(frozen=True)
class Owner:
    """The workspace an archive belongs to, as the database has it."""

    id: UUID
    deleted: bool
    in_error: bool
    archive_key: str | None
    op_id: UUID | None
    has_volume: bool
    chosen: str | None = None  # the archive its person chose to return to
    generations: Generations = ()
    snapshots: frozenset[str] = frozenset()  # the archives its person named; kept until they are deleted
    in_operation: bool = False  # an operation is in flight; ``op_id`` stays after it has ended

    def keeps_by_choice(self, key: str, *, keep_generations: int) -> Protection | None:
        """Why a person's snapshot, or return to an earlier archive, keeps this one."""
        if key == self.chosen:
            return Protection.CHOSEN
        if key in self.snapshots:
            return Protection.SNAPSHOT
        return Protection.LEFT if key in left_within(self.generations, keep_generations) else None


@dataclass(frozen=True)
class Sorted:
    """The archives in the store, sorted."""

    protected: Mapping[str, Protection]  # key → why
    orphans: tuple[StoredAttempt, ...]
    unknown: tuple[
        StoredAttempt, ...
    ]  # of no workspace in the database: never deleted, listed for the operator


def sort_archives(
    attempts: Iterable[StoredAttempt],
    owners: Mapping[UUID, Owner],
    *,
    keep_generations: int,
    thinning: Thinning = NO_THINNING,
    copied: Collection[str] = (),
) -> Sorted:
    """Sort every stored attempt by what the database says of its workspace.

    ``copied``: archives that other workspaces are restored from. They outlive the workspace they were made of.
    """
    by_workspace: dict[UUID, list[StoredAttempt]] = defaultdict(list)
    for attempt in attempts:
        by_workspace[attempt.workspace_id].append(attempt)
    protected: dict[str, Protection] = {}
    orphans: list[StoredAttempt] = []
    unknown: list[StoredAttempt] = []
    for workspace_id, stored in by_workspace.items():
        owner = owners.get(workspace_id)
        if owner is None:  # a shared bucket, or a new database with an old bucket: keep all
            unknown.extend(stored)
            continue
        why = _protections(stored, owner, keep_generations=keep_generations, thinning=thinning)
        why |= {each.key: Protection.COPIED for each in stored if each.key in copied and each.key not in why}
        protected |= why
        orphans.extend(attempt for attempt in stored if attempt.key not in why)
    return Sorted(protected, tuple(orphans), tuple(unknown))


def may_sweep_packs_of(owner: Owner) -> bool:
    """Whether packs of this workspace that nobody names may be deleted.

    Not while an operation is under way, or kept by an error: its job may be writing a manifest that names them.
    """
    return not owner.in_operation and (owner.deleted or not owner.in_error)


def may_delete(*, first_seen_at: datetime | None, now: datetime, delay: timedelta) -> bool:
    """Whether an orphan was first seen longer than ``delay`` ago.

    Losing first-seen times only delays deletion.
    """
    return first_seen_at is not None and now - first_seen_at > delay


def _protections(
    attempts: list[StoredAttempt], owner: Owner, *, keep_generations: int, thinning: Thinning
) -> dict[str, Protection]:
    if owner.deleted:  # deletion lifts all protection; the delay still applies
        return {}
    committed = sorted(
        (attempt for attempt in attempts if attempt.committed),
        key=lambda attempt: (attempt.stored_at, attempt.key),
        reverse=True,
    )
    # A snapshot takes no place among the newest: naming one must not remove another.
    unnamed = [attempt for attempt in committed if attempt.key not in owner.snapshots]
    newest = {attempt.key for attempt in unnamed[:keep_generations]}
    thinned = _newest_of_periods(unnamed, thinning)
    only_copy = committed[0].key if committed and not owner.has_volume and owner.archive_key is None else None
    found: dict[str, Protection] = {}
    for attempt in attempts:
        if attempt.key == owner.archive_key:
            found[attempt.key] = Protection.CURRENT
        elif attempt.op_id == owner.op_id:
            found[attempt.key] = Protection.OPERATION
        elif owner.in_error:
            found[attempt.key] = Protection.ERROR
        elif attempt.key == only_copy:
            found[attempt.key] = Protection.ONLY_COPY
        elif attempt.key in newest:
            found[attempt.key] = Protection.GENERATION
        elif attempt.key in thinned:
            found[attempt.key] = Protection.THINNED
        elif by_choice := owner.keeps_by_choice(attempt.key, keep_generations=keep_generations):
            found[attempt.key] = by_choice
    return found


def _newest_of_periods(newest_first: list[StoredAttempt], thinning: Thinning) -> set[str]:
    """The newest of each of the latest days and weeks that have one."""
    days: dict[date, str] = {}
    weeks: dict[tuple[int, int], str] = {}
    for attempt in newest_first:
        day = attempt.stored_at.astimezone(UTC).date()
        days.setdefault(day, attempt.key)
        weeks.setdefault(day.isocalendar()[:2], attempt.key)
    return {*list(days.values())[: thinning.days], *list(weeks.values())[: thinning.weeks]}
