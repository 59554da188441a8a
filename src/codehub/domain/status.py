"""Compute a workspace's status: one word for cards, tables and filters."""

from enum import StrEnum
from typing import assert_never

from codehub.domain.states import ObservedStatus, Operation
from codehub.domain.workspace import WorkspaceView


class Status(StrEnum):
    DELETED = "deleted"
    DELETING = "deleting"
    ERROR = "error"
    PROVISIONING = "provisioning"
    RESTORING = "restoring"
    STARTING = "starting"
    STOPPING = "stopping"
    ARCHIVING = "archiving"
    RUNNING = "running"
    STANDBY = "standby"
    ARCHIVED = "archived"
    NEW = "new"


def status_of(ws: WorkspaceView) -> Status:
    """The status of a workspace. First match wins, the most final case first."""
    if ws.observed_status is ObservedStatus.DELETED:
        return Status.DELETED
    if ws.deleted_at is not None:
        return Status.DELETING
    if ws.in_error:
        return Status.ERROR
    if ws.operation is not Operation.NONE:
        return Status(ws.operation.value.lower())
    match ws.observed_status:
        case ObservedStatus.RUNNING:
            return Status.RUNNING
        case ObservedStatus.STANDBY:
            return Status.STANDBY
        case ObservedStatus.PENDING:
            return Status.NEW if ws.archive_key is None else Status.ARCHIVED
        case _:
            assert_never(ws.observed_status)
