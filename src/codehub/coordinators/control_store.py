"""The store as the coordinators use it: one protocol for each, joined in ``ControlStore``.

``store/control`` is PostgreSQL's; the simulation passes its own, held to PostgreSQL by
``tests/integration/store/test_parity_*.py``. Every function takes the session it runs in and is documented
where it is defined, under the same name. A session comes from ``Leadership``: ``transaction`` or
``statement``, both fenced by the term.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from codehub.domain.errors import ErrorInfo
from codehub.domain.workspace import HomeContext, WorkspaceView
from codehub.services.intent_store import IntentStore
from codehub.store.cluster.orphans import ArchiveOwner
from codehub.store.cluster.terms import TermRow
from codehub.store.db.fencing import Fence, FencedSession
from codehub.store.db.session import Connection, Session
from codehub.store.workspaces.claims import ClaimedOperation
from codehub.store.workspaces.due import DueWork
from codehub.store.workspaces.observations import Observable, Observed
from codehub.store.workspaces.transitions import TransitionStore


class Connector(Protocol):
    """Opens the one connection of a coordinator."""

    async def connect(self) -> Connection: ...


class TermStore(Protocol):
    """Sessions on the leader's connection, and its terms. For ``Leadership`` and the loop."""

    def session_on(self, connection: Connection) -> Session: ...

    def fenced_session_on(self, connection: Connection, fence: Fence) -> FencedSession: ...

    async def acquire_term(self, session: Session, lock_name: str, holder_id: str) -> TermRow: ...

    async def hold_term(
        self, session: Session, lock_name: str, epoch: int, *, actor: str = ""
    ) -> datetime | None: ...

    async def record_tick(self, session: Session, lock_name: str, *, detail: Mapping[str, Any]) -> None: ...

    async def record_error(self, session: Session, lock_name: str, error: str) -> None: ...

    async def last_tick_at(self, session: Session, lock_name: str) -> datetime | None: ...

    async def read_terms(self, session: Session) -> dict[str, TermRow]: ...


class ObserverStore(TermStore, IntentStore, Protocol):
    """Rows to observe, and what was observed of them."""

    async def load_watched(self, session: Session, *, after: UUID, limit: int) -> list[Observable]: ...

    async def load_named(self, session: Session, ids: Collection[UUID]) -> list[Observable]: ...

    async def write_observations(
        self, session: Session, observed: Sequence[Observed], *, observed_at: datetime
    ) -> list[UUID]: ...

    async def stamp_in_flight(
        self, session: Session, ids: Collection[UUID], *, observed_at: datetime
    ) -> int: ...

    async def stamp_coarse(
        self, session: Session, *, observed_at: datetime, older_than: datetime, limit: int = 5000
    ) -> int: ...

    async def set_invariant_error(self, session: Session, workspace_id: UUID, error: ErrorInfo) -> bool: ...


class ReconcilerStore(TermStore, TransitionStore, IntentStore, Protocol):
    """Due work, and the writes of an operation from its claim to its end."""

    async def load_in_flight(self, session: Session, *, retried_before: datetime) -> list[WorkspaceView]: ...

    async def load_work(self, session: Session, *, limit: int, retried_before: datetime) -> DueWork: ...

    async def holds(self, session: Session, claim: ClaimedOperation) -> bool: ...

    async def catch_up(self, session: Session, claim: ClaimedOperation, *, seen_op_seq: int) -> bool: ...

    async def record_failure(
        self, session: Session, claim: ClaimedOperation, error: ErrorInfo, *, home: HomeContext
    ) -> bool: ...

    async def go_terminal(self, session: Session, claim: ClaimedOperation, error: ErrorInfo) -> bool: ...

    async def release(
        self,
        session: Session,
        claim: ClaimedOperation,
        error: ErrorInfo,
        *,
        home: HomeContext,
        return_given_up: str | None = None,
        snapshot_given_up: UUID | None = None,
    ) -> bool: ...

    async def commit_archive_key(
        self, session: Session, claim: ClaimedOperation, archive_key: str, *, home: HomeContext
    ) -> bool: ...

    async def mark_restored(
        self, session: Session, claim: ClaimedOperation, *, home: HomeContext
    ) -> bool: ...

    async def record_crash(
        self,
        session: Session,
        workspace: WorkspaceView,
        error: ErrorInfo,
        *,
        home: HomeContext,
        wait: bool = True,
    ) -> bool: ...

    async def append_note(self, session: Session, workspace_id: UUID, *, actor: str, cause: str) -> None: ...


class TtlStore(TermStore, IntentStore, Protocol):
    """Workspaces whose TTL may be over."""

    async def load_standby_candidates(
        self, session: Session, *, now: datetime, after: UUID, limit: int
    ) -> list[WorkspaceView]: ...

    async def load_archive_candidates(
        self, session: Session, *, now: datetime, limit: int
    ) -> list[WorkspaceView]: ...


class GcStore(TermStore, Protocol):
    """Owners of archives, and archives that have none."""

    async def load_owners(self, session: Session, ids: Collection[UUID]) -> dict[UUID, ArchiveOwner]: ...

    async def copied_among(self, session: Session, paths: Collection[str]) -> frozenset[str]: ...

    async def replace_seen(self, session: Session, paths: Collection[str]) -> Mapping[str, datetime]: ...

    async def forget(self, session: Session, paths: Collection[str]) -> int: ...


class ControlStore(ObserverStore, ReconcilerStore, TtlStore, GcStore, Protocol):
    """All of it, as the wiring passes it."""
