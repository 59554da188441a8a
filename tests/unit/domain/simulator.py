"""Simulate the environment of one workspace: executes what the plan decides, and stops anywhere it is told to.

Small on purpose: one leader, real ``WorkspaceView`` rows, effects that happen in the specified order. Each
call of ``tick`` is a leader that knows nothing of earlier ones, so an interrupted action is one whose leader
died. What must never happen is asserted at the effect that would do it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from uuid import UUID

from codehub.domain import home
from codehub.domain.endings import Ending
from codehub.domain.errors import EffectError, FailureCode
from codehub.domain.observation import observe
from codehub.domain.plan import Act, Claim, Complete, Crashed, Decision, Fail, Halt, Mark, crash_error, plan
from codehub.domain.policy import Drop, GiveUp, Release, Retry, after_failure
from codehub.domain.states import ContainerState, DesiredState, HealthStatus, ObservedStatus, Operation
from codehub.domain.workspace import HomeContext, WorkspaceView

from .builders import NOW, POLICY, minutes, workspace

HALF = -1
Effect = Callable[[], None]

NEW = workspace(
    desired_state=DesiredState.PENDING,
    observed_status=ObservedStatus.PENDING,
    observed_at=NOW,
    home=HomeContext(),
)


@dataclass
class Simulator:
    row: WorkspaceView = NEW
    container: ContainerState = ContainerState.NONE
    volume: int | None = None  # the generation of its content; HALF: not a whole home
    archives: dict[str, int] = field(default_factory=dict)
    newest: int = 0  # what the person left in the home
    now: datetime = NOW

    # The person, the Observer, and what breaks.

    def intent(self, desired: DesiredState) -> None:
        self.row = replace(self.row, desired_state=desired)

    def delete(self) -> None:
        self.row = replace(self.row, deleted_at=self.row.deleted_at or self.now)

    def recover(self) -> None:
        if self.row.error_info is not None and self.row.error_info.is_terminal:
            kept = home.at_recovery(self.row)
            self.row = replace(self.row, error_info=None, error_count=0, home=kept)

    def edit(self) -> None:
        if self.container is ContainerState.RUNNING:
            self.newest += 1
            self.volume = self.newest

    def crash(self) -> None:
        if self.container is ContainerState.RUNNING:
            self.container = ContainerState.DEAD

    def observe(self) -> None:
        self.now += minutes(2)
        error = self.row.error_info
        observed = observe(
            container=self.container,
            volume=self.volume is not None,
            deleted=self.row.deleted_at is not None,
            terminal_error=error is not None and error.is_terminal,
        )
        self.row = replace(
            self.row,
            observed_status=observed.observed_status,
            health_status=observed.health_status,
            observed_at=self.now,
        )

    # The leader.

    def decide(self) -> Decision:
        return plan(self.row, now=self.now, policy=POLICY)

    def tick(self, *, effects: int | None = None, fails: bool = False) -> Decision:
        """One decision, carried out. After ``effects`` effects the leader dies, or the action fails."""
        self.now += minutes(2)
        decision = self.decide()
        match decision:
            case Claim(operation=operation):
                self._claim(operation)
                self._act(effects, fails=fails)
            case Act():
                self._act(effects, fails=fails)
            case Complete():
                kept = home.at_completion(self.row, now=self.now)
                self.row = replace(
                    self.row,
                    operation=Operation.NONE,
                    op_acted_at=None,
                    error_count=0,
                    error_info=None,
                    home=kept,
                )
            case Fail(failure=failure):
                self._failed(failure)
            case Halt(error=error):
                self.row = replace(self.row, error_info=error)
            case Mark():
                self.row = replace(self.row, home=home.marked(self.row.home))
            case Crashed(crashes=crashes, soon=soon):
                error = crash_error(decision, Ending(), log_tail="", now=self.now, policy=POLICY)
                kept = home.at_crash(self.row.home, crashes=crashes)
                retried_at = self.now if soon else None
                self.row = replace(self.row, error_info=error, last_retry_at=retried_at, home=kept)
            case _:
                pass
        return decision

    def _claim(self, operation: Operation) -> None:
        op_seq = self.row.op_seq + 1
        self.row = replace(
            self.row,
            operation=operation,
            op_seq=op_seq,
            op_id=UUID(int=op_seq),
            op_started_at=self.now,
            op_acted_at=None,
            error_count=0,
            last_retry_at=None,
            home=home.at_claim(self.row, operation),
        )

    def _act(self, effects: int | None, *, fails: bool) -> None:
        for number, effect in enumerate(self._effects()):
            if number == effects:
                if fails:
                    self._failed(EffectError(FailureCode.CONTAINER_START_FAILED, "words"))
                return
            effect()

    def _failed(self, failure: EffectError) -> None:
        match after_failure(self.row, failure, now=self.now, policy=POLICY):
            case Retry(error=error):
                self.row = replace(
                    self.row,
                    error_info=error,
                    error_count=error.error_count,
                    last_retry_at=self.now,
                    op_acted_at=None,
                    home=home.at_failure(self.row),
                )
            case GiveUp(error=error):
                self.row = replace(self.row, operation=Operation.NONE, op_acted_at=None, error_info=error)
            case Release(error=error, retry_at=retry_at):
                self.row = replace(
                    self.row,
                    operation=Operation.NONE,
                    op_acted_at=None,
                    error_info=error,
                    last_retry_at=None,
                    home=home.at_archiving_given_up(self.row.home, retry_at=retry_at),
                )
            case Drop():
                pass

    def _effects(self) -> list[Effect]:
        stop, delete, acted = self._stop, self._delete_volume, self._acted
        match self.row.operation:
            case Operation.PROVISIONING:
                return [self._provision, acted]
            case Operation.RESTORING:
                return [stop, self._make_half, self._swap_in, self._vouch]
            case Operation.STARTING:
                return [self._start, acted]
            case Operation.STOPPING:
                return [stop, acted]
            case Operation.ARCHIVING if self.row.volume_is_trusted:
                return [stop, self._upload, self._commit, self._half_delete, delete, acted]
            case _:
                return [stop, self._half_delete, delete, acted]

    # Effects, one by one.

    def _acted(self) -> None:
        self.now += minutes(1)
        self.row = replace(self.row, op_acted_at=self.now)

    def _provision(self) -> None:
        assert not self.archives or self.row.deleted_at, "an empty home beside an archive"
        self.volume = 0 if self.volume is None else self.volume

    def _start(self) -> None:
        assert self.row.volume_is_trusted, "started on an untrusted volume"
        assert self.volume == self.newest, "started on something else than the newest home"
        self.container = ContainerState.RUNNING

    def _stop(self) -> None:
        self.container = ContainerState.NONE

    def _make_half(self) -> None:
        assert not self.row.volume_is_trusted, "a home is being overwritten"
        self.volume = HALF

    def _swap_in(self) -> None:
        assert self.row.archive_key is not None
        self.volume = self.archives[self.row.archive_key]

    def _vouch(self) -> None:
        """The marker and the end of the action are one write: a marker alone would vouch for the next try."""
        assert self.row.archive_key is not None
        self._acted()
        self.row = replace(self.row, home=home.at_restored(self.row.home, archive_key=self.row.archive_key))

    def _upload(self) -> None:
        assert self.volume == self.newest, "archived something else than the newest home"
        self.archives.setdefault(f"{self.row.op_id}", self.volume)

    def _commit(self) -> None:
        key = f"{self.row.op_id}"
        kept = home.at_archive_commit(self.row.home, archive_key=key, sha256="sum", sizes={})
        self.row = replace(self.row, archive_key=key, home=kept)

    def _half_delete(self) -> None:
        self._assert_may_go()
        self.volume = None if self.volume is None else HALF

    def _delete_volume(self) -> None:
        self._assert_may_go()
        self.volume = None

    def _assert_may_go(self) -> None:
        assert self.container is ContainerState.NONE, "a volume removed under its container"
        kept = self.row.archive_key is not None and self.archives[self.row.archive_key] == self.newest
        assert kept or self.row.deleted_at, "a volume removed without a committed archive of it"

    @property
    def is_healthy(self) -> bool:
        return self.row.health_status is HealthStatus.OK and not self.row.in_error
