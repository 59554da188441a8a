"""The store as the services use it (``IntentStore``).

``store/control`` is PostgreSQL's; the simulation passes its own. Every function takes the session of the
caller's transaction and is documented where it is defined, under the same name.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from codehub.domain.busy import Busy
from codehub.domain.copies import CopySource
from codehub.domain.generations import ChosenArchive
from codehub.domain.snapshots import Snapshots, WantedSnapshot
from codehub.domain.start_queue import StartQueue
from codehub.domain.states import DesiredState
from codehub.domain.workspace import HomeContext
from codehub.store.db.session import Session
from codehub.store.workspaces.limits import PlacesHeld
from codehub.store.workspaces.records import WorkspaceRecord


class IntentStore(Protocol):
    """Reads and writes of what people want."""

    async def now(self, session: Session) -> datetime: ...

    async def set_actor(self, session: Session, actor: str, cause: str = "") -> None: ...

    async def append_audit(
        self,
        session: Session,
        *,
        actor: str,
        action: str,
        subject: str | None = None,
        detail: Mapping[str, Any] | None = None,
    ) -> None: ...

    async def find(self, session: Session, workspace_id: UUID) -> WorkspaceRecord | None: ...

    async def find_locked(self, session: Session, workspace_id: UUID) -> WorkspaceRecord | None: ...

    async def lock_limits(self, session: Session) -> None: ...

    async def usage_for(self, session: Session, owner_id: UUID, *, actor: str, cause: str) -> PlacesHeld: ...

    async def load_start_queue(self, session: Session) -> StartQueue: ...

    async def lock_in_order(self, session: Session, ids: Collection[UUID]) -> None: ...

    async def running_of(self, session: Session, owner_id: UUID) -> list[WorkspaceRecord]: ...

    async def create(
        self,
        session: Session,
        *,
        workspace_id: UUID,
        owner_id: UUID,
        name: str,
        image_ref: str,
        description: str = "",
        memo: str = "",
        tags: Sequence[str] = (),
        standby_ttl_seconds: int = 300,
        archive_ttl_seconds: int = 86400,
        desired_state: DesiredState = DesiredState.PENDING,
    ) -> WorkspaceRecord: ...

    async def update_details(
        self, session: Session, workspace_id: UUID, **details: str | int | list[str]
    ) -> WorkspaceRecord | None: ...

    async def set_desired(
        self,
        session: Session,
        workspace_id: UUID,
        desired_state: DesiredState,
        *,
        expected: DesiredState | None = None,
        touch: bool = True,
    ) -> WorkspaceRecord | None: ...

    async def mark_deleted(self, session: Session, workspace_id: UUID) -> bool: ...

    async def set_awake_until(self, session: Session, workspace_id: UUID, until: datetime | None) -> bool: ...

    async def set_busy(self, session: Session, workspace_id: UUID, busy: Busy | None) -> bool: ...

    async def set_restore_from(
        self, session: Session, workspace_id: UUID, chosen: ChosenArchive | None
    ) -> bool: ...

    async def set_snapshots(
        self, session: Session, workspace_id: UUID, *, wanted: WantedSnapshot | None, made: Snapshots
    ) -> bool: ...

    async def set_copy_of(self, session: Session, workspace_id: UUID, source: CopySource) -> bool: ...

    async def set_queued(self, session: Session, workspace_id: UUID, *, queued: bool) -> bool: ...

    async def orphans_among(self, session: Session, paths: Collection[str]) -> frozenset[str]: ...

    async def recover(self, session: Session, workspace_id: UUID, *, home: HomeContext) -> bool: ...

    async def touch(self, session: Session, ids: Collection[UUID]) -> int: ...
