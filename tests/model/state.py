"""What exists in the model: small immutable tuples, so that a state can be hashed and met again.

Time is not a number here but what the rules ask of it: has the action ended (``acted``), has a look begun
after that (``fresh``). Content is a generation: 0 is an empty new home, every edit makes the next one, and
``HALF`` is a volume that is not a whole home (half restored or half deleted).
"""

from typing import NamedTuple

from codehub.domain.states import ContainerState, DesiredState, ObservedStatus, Operation

HALF = -1


GIVEN_UP = "given up"
"""Archiving, for a while: until a person asks, or its time has come, which only ever is after a look."""


class Row(NamedTuple):
    """The columns of the workspace. ``op_seq`` also serves as op_id: both are new with each claim."""

    desired: DesiredState = DesiredState.STANDBY
    deleted: bool = False
    observed: ObservedStatus = ObservedStatus.STANDBY
    health_error: bool = False
    operation: Operation = Operation.NONE
    op_seq: int = 0
    acted: bool = False
    fresh: bool = False  # the last look began after the action ended
    archive_key: str | None = None
    error_count: int = 0
    error: str | None = None  # retrying, or what is terminal: failed, vanished, unexpected, broken
    marker: str | None = None
    mark: bool = True
    restore_from: str | None = None  # the archive its person chose to return to
    snapshot: bool = False  # its person wants one
    keeps: bool = False  # the archiving in flight is for a snapshot: the volume stays

    @property
    def terminal(self) -> bool:
        return self.error not in (None, "retrying", GIVEN_UP)

    @property
    def given_up(self) -> bool:
        return self.error == GIVEN_UP and self.operation is Operation.NONE


class Job(NamedTuple):
    """A storage job: it lives in a process of its own and outlives whoever started it."""

    archives: bool  # or restores
    op_seq: int
    epoch: int
    archive_key: str | None = None
    content: int | None = None  # archive: what was read; restore: HALF once the volume is being made


class Resources(NamedTuple):
    container: ContainerState = ContainerState.NONE
    volume: int | None = 1
    unmounted: int | None = None  # the volume's content while its disk is away
    archives: tuple[tuple[str, int], ...] = ()  # committed ones: key, content
    job: Job | None = None
    restored_by: tuple[int, int] | None = None  # the token of the restore that ended last, and well
    token: tuple[int, int] = (0, 0)  # the highest seen


class Leader(NamedTuple):
    """A leader between two of its steps. ``seen`` is the row it decided from: it may be stale."""

    epoch: int
    doing: str = "nothing"  # a decision to write, or an action in progress
    seen: Row | None = None
    step: int = 0
    key: str | None = None  # of the archive its job made
    failure: str | None = None


class Look(NamedTuple):
    """What the Observer saw and has not written yet."""

    container: ContainerState
    volume: bool
    fresh: bool


class Budget(NamedTuple):
    """How much may still happen. A scenario hands it out; what is used up bounds the search."""

    intents: int = 0
    edits: int = 0
    recoveries: int = 0
    returns: int = 0
    choices: int = 0
    snapshots: int = 0
    takeovers: int = 0
    failures: int = 0
    timeouts: int = 0
    crashes: int = 0
    unmounts: int = 0


class State(NamedTuple):
    row: Row
    resources: Resources
    leader: Leader = Leader(epoch=1)
    ghost: Leader | None = None  # the leader before: it may still take the steps it was about to take
    look: Look | None = None
    budget: Budget = Budget()
    newest: int = 1  # what the person last left in the home
    shown: bool = False  # the target was true at some instant since the action ended
    problem: str | None = None  # a step that must never happen has happened


def content_of(resources: Resources, key: str | None) -> int | None:
    return dict(resources.archives).get(key) if key is not None else None
