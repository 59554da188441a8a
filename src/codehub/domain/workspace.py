"""Snapshot of a workspace's row, as the rules read it. Immutable.

``store`` makes these from rows; ``plan``, ``completion``, ``ttl`` and the rest read them. A decision is a
value; the caller that performs it writes to the database, fenced.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from codehub.domain.busy import Busy
from codehub.domain.copies import CopySource
from codehub.domain.errors import ErrorInfo, FailureCode, Reason
from codehub.domain.generations import ChosenArchive, Generation, Generations
from codehub.domain.snapshots import Snapshots, WantedSnapshot
from codehub.domain.states import DesiredState, HealthStatus, ObservedStatus, Operation


@dataclass(frozen=True)
class HomeContext:
    """``workspaces.home_ctx``: what is known of the home beyond observation.

    ``volume``: a home was completed here, so its absence is a loss and never a fresh start.
    ``restore_marker``: the archive this volume was completely restored from (or became).
    ``ran_at``: when the container last reached RUNNING; None once a stop was asked for.
    ``crashes``: how often in a row it left RUNNING within a minute, unasked.
    ``sizes``: of the last archive, shown to people.
    ``archived_key``, ``archive_sha256``: the checksum that was committed together with that key; ``archived_at``: when.
    ``archive_failures``: how often in a row archiving was given up; ``archive_retry_at``: not retried
    before.
    ``generations``: the latest archives, newest first. ``return_given_up``: why the last return to one of them was
    given up; until the home is archived again.
    ``keeps_volume``: the archiving in flight is for a snapshot, and the volume stays. Set when it is claimed.
    """

    restore_marker: str | None = None
    volume: bool = False
    ran_at: datetime | None = None
    crashes: int = 0
    sizes: Mapping[str, int] = field(default_factory=dict)
    archived_key: str | None = None
    archive_sha256: str | None = None
    archived_at: datetime | None = None
    archive_failures: int = 0
    archive_retry_at: datetime | None = None
    generations: Generations = ()
    return_given_up: str | None = None
    keeps_volume: bool = False

    def as_json(self) -> dict[str, Any]:
        return {
            "restore_marker": self.restore_marker,
            "volume": self.volume,
            "ran_at": self.ran_at.isoformat() if self.ran_at else None,
            "crashes": self.crashes,
            "sizes": dict(self.sizes),
            "archived_key": self.archived_key,
            "archive_sha256": self.archive_sha256,
            "archived_at": self.archived_at.isoformat() if self.archived_at else None,
            "archive_failures": self.archive_failures,
            "archive_retry_at": self.archive_retry_at.isoformat() if self.archive_retry_at else None,
            "generations": [each.as_json() for each in self.generations],
            "return_given_up": self.return_given_up,
            "keeps_volume": self.keeps_volume,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any] | None) -> "HomeContext":
        value = value or {}
        ran_at, archive_retry_at = value.get("ran_at"), value.get("archive_retry_at")
        archived_at = value.get("archived_at")
        return cls(
            restore_marker=value.get("restore_marker"),
            volume=bool(value.get("volume", False)),
            ran_at=datetime.fromisoformat(ran_at) if ran_at else None,
            crashes=int(value.get("crashes", 0)),
            sizes=value.get("sizes") or {},
            archived_key=value.get("archived_key"),
            archive_sha256=value.get("archive_sha256"),
            archived_at=datetime.fromisoformat(archived_at) if archived_at else None,
            archive_failures=int(value.get("archive_failures", 0)),
            archive_retry_at=datetime.fromisoformat(archive_retry_at) if archive_retry_at else None,
            generations=tuple(Generation.from_json(each) for each in value.get("generations") or ()),
            return_given_up=value.get("return_given_up"),
            keeps_volume=bool(value.get("keeps_volume", False)),
        )


@dataclass(frozen=True)
class WorkspaceView:
    """Every column of a workspace that a rule reads."""

    id: UUID
    owner_id: UUID
    desired_state: DesiredState
    observed_status: ObservedStatus
    health_status: HealthStatus
    operation: Operation
    last_access_at: datetime
    image_ref: str = ""
    observed_at: datetime | None = None
    op_id: UUID | None = None
    op_seq: int = 0
    op_started_at: datetime | None = None
    op_acted_at: datetime | None = None
    archive_key: str | None = None
    error_count: int = 0
    error_info: ErrorInfo | None = None
    last_retry_at: datetime | None = None
    previous_status: ObservedStatus | None = None
    home: HomeContext = field(default_factory=HomeContext)
    standby_ttl_seconds: int = 300
    archive_ttl_seconds: int = 86400
    awake_until: datetime | None = None
    active_until: datetime | None = None
    busy: Busy | None = None
    restore_from: ChosenArchive | None = None
    snapshot_as: WantedSnapshot | None = None
    snapshots: Snapshots = ()
    copy_of: CopySource | None = None
    queued_at: datetime | None = None
    deleted_at: datetime | None = None
    version: int = 1

    @property
    def in_error(self) -> bool:
        """In terminal error, which only a person lifts.

        ``error_info`` counts too, because the Observer may not have set ``health_status`` yet.
        """
        return self.health_status is HealthStatus.ERROR or (
            self.error_info is not None and self.error_info.is_terminal
        )

    @property
    def is_queued(self) -> bool:
        """Whether it waits for a running place."""
        return (
            self.queued_at is not None
            and self.deleted_at is None
            and self.desired_state is not DesiredState.RUNNING
        )

    @property
    def archive_sha256(self) -> str | None:
        """Checksum of the current archive; None: not known.

        It is not known of archives of an older release, or where the key is another one (an operator went
        back to an older generation by hand).
        """
        return self.home.archive_sha256 if self.home.archived_key == self.archive_key else None

    @property
    def archiving_given_up(self) -> bool:
        """Archiving failed and waits for its next try or for a person.

        The home is whole: it can be started.
        """
        return self.operation is Operation.NONE and self.home.archive_retry_at is not None

    @property
    def owner_may_lift_error(self) -> bool:
        """Whether the owner, and not only an administrator, may recover this error.

        Archiving mostly fails because of a file in the home, which only its owner can change; a node that was
        away may be back. A mismatch between what exists and what should, or lost data, is for an administrator.
        """
        error = self.error_info
        return error is not None and (
            self.home_node_is_unavailable
            or (
                error.operation is Operation.ARCHIVING
                and error.reason not in (Reason.DATA_LOST, Reason.MISMATCH)
            )
        )

    @property
    def home_node_is_unavailable(self) -> bool:
        """At rest, because the one node that has the home does not take it. A person decides what follows."""
        error = self.error_info
        return (
            self.operation is Operation.NONE
            and self.observed_status is ObservedStatus.STANDBY
            and error is not None
            and error.context.get("code") == FailureCode.HOME_NODE_UNAVAILABLE
        )

    @property
    def volume_has_vanished(self) -> bool:
        """At rest, because a completed home is gone although nobody removed it.

        An operation that found no volume names itself in its error instead.
        """
        error = self.error_info
        return (
            error is not None
            and error.operation is Operation.NONE
            and error.context.get("code") == FailureCode.VOLUME_MISSING
        )

    @property
    def may_return(self) -> bool:
        """Whether its person may choose an earlier archive now.

        Not while an error says that what exists is not what should (a vanished volume, a container nobody knows): an
        administrator has to look first. An archive that cannot be restored, or a home that does not start, is what
        earlier archives are for.
        """
        error = self.error_info
        if not self.in_error:
            return True
        return (
            error is not None
            and error.operation in (Operation.PROVISIONING, Operation.RESTORING, Operation.STARTING)
            and error.context.get("code") not in (FailureCode.VOLUME_USED_ELSEWHERE, FailureCode.NAME_TAKEN)
        )

    @property
    def return_waits_for_archive(self) -> bool:
        """Whether a return to an earlier archive waits for the present home to be archived."""
        return self.restore_from is not None and self.volume_is_trusted

    @property
    def archive_source_id(self) -> UUID | None:
        """The workspace whose archive is the current one, where that is another: a copy before its own first one."""
        if self.copy_of is None or self.copy_of.archive_key != self.archive_key:
            return None
        return self.copy_of.workspace_id

    @property
    def is_due_for_snapshot(self) -> bool:
        """Whether the home is archived for a snapshot alone, and its volume stays.

        Where it is to be archived anyway (desired PENDING, a return to an earlier archive), that archive is the
        snapshot.
        """
        return (
            self.snapshot_as is not None
            and self.observed_status is ObservedStatus.STANDBY
            and self.desired_state is not DesiredState.PENDING
            and self.restore_from is None
            and self.volume_is_trusted
        )

    @property
    def archived_at(self) -> datetime | None:
        """When the current archive was committed; None: there is none, or it is not known."""
        return (
            self.home.archived_at if self.archive_key and self.home.archived_key == self.archive_key else None
        )

    @property
    def volume_is_trusted(self) -> bool:
        """Whether the volume, if there is one, holds the whole home.

        A half-restored or half-deleted volume is not trusted: it is never started and never archived,
        because either would make an incomplete home the current one.
        """
        return self.archive_key is None or self.home.restore_marker == self.archive_key
