"""Failure codes of operations, and the table that maps each to a reason.

Adapters (runtimes, archives) raise ``EffectError`` with a low-level ``code``; the table here turns
the code into a ``Reason``, and ``policy`` decides about retries by the reason. Nothing else in CodeHub interprets
failures, so adding a code means adding one row.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from codehub.domain.states import Operation


class Reason(StrEnum):
    MISMATCH = "Mismatch"
    UNREACHABLE = "Unreachable"
    ACTION_FAILED = "ActionFailed"
    TIMEOUT = "Timeout"
    RETRY_EXCEEDED = "RetryExceeded"
    DATA_LOST = "DataLost"


class FailureCode(StrEnum):
    """Low-level failure causes, as adapters report them."""

    ARCHIVE_NOT_FOUND = "ARCHIVE_NOT_FOUND"
    CHECKSUM_MISMATCH = "CHECKSUM_MISMATCH"  # on restore: the stored bytes are damaged
    ARCHIVE_MISMATCH = "ARCHIVE_MISMATCH"  # on restore: another archive is stored under our key
    READ_BACK_MISMATCH = "READ_BACK_MISMATCH"  # on archive: what we just wrote did not come back
    ARCHIVE_UNEXPECTED = "ARCHIVE_UNEXPECTED"  # a new home was asked for, but an archive exists
    HOME_NOT_ARCHIVABLE = "HOME_NOT_ARCHIVABLE"  # because of a file in it, which its owner can change
    TAR_CREATE_FAILED = "TAR_CREATE_FAILED"
    TAR_EXTRACT_FAILED = "TAR_EXTRACT_FAILED"
    TOOL_MISSING = "TOOL_MISSING"
    NO_SPACE = "NO_SPACE"
    VOLUME_CREATE_FAILED = "VOLUME_CREATE_FAILED"
    VOLUME_MISSING = "VOLUME_MISSING"
    VOLUME_IN_USE = "VOLUME_IN_USE"
    VOLUME_USED_ELSEWHERE = "VOLUME_USED_ELSEWHERE"  # by a container CodeHub does not know
    CONTAINER_START_FAILED = "CONTAINER_START_FAILED"
    CONTAINER_STOP_FAILED = "CONTAINER_STOP_FAILED"
    CONTAINER_ENDED = "CONTAINER_ENDED"  # unasked, after it had started
    CONTAINER_PAUSED = "CONTAINER_PAUSED"  # frozen from outside CodeHub: it runs and answers no request
    CONTAINER_NOT_RUNNING = "CONTAINER_NOT_RUNNING"  # a command was to be run in it
    EXEC_FAILED = "EXEC_FAILED"  # the engine could not run a command in the container
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    EVICTED = "EVICTED"  # from its node, which ran short of something
    PREEMPTED = "PREEMPTED"  # by something of a higher priority
    NODE_LOST = "NODE_LOST"  # shut down, or it does not answer
    UNSCHEDULABLE = "UNSCHEDULABLE"  # no node took it in time
    HOME_NODE_UNAVAILABLE = "HOME_NODE_UNAVAILABLE"  # the one node that has its home did not take it in time
    QUOTA_EXCEEDED = "QUOTA_EXCEEDED"
    ADMISSION_REFUSED = "ADMISSION_REFUSED"  # by the cluster's rules
    NAME_TAKEN = "NAME_TAKEN"  # by an object that is not of this installation
    IMAGE_PULL_FAILED = "IMAGE_PULL_FAILED"
    IMAGE_UNKNOWN = "IMAGE_UNKNOWN"
    STORAGE_JOB_FAILED = "STORAGE_JOB_FAILED"
    STALE_TOKEN = "STALE_TOKEN"  # the runtime has seen a newer token: drop the result, count nothing
    EFFECT_NOT_SEEN = "EFFECT_NOT_SEEN"  # the action reported success; its effect was never observed
    DELETION_SLOW = "DELETION_SLOW"
    UNEXPECTED = "UNEXPECTED"  # a bug of CodeHub; details are in its log
    LOCAL_RUNTIME_ERROR = "LOCAL_RUNTIME_ERROR"
    S3_ACCESS_ERROR = "S3_ACCESS_ERROR"
    K8S_API_ERROR = "K8S_API_ERROR"
    DOCKER_API_ERROR = "DOCKER_API_ERROR"


REASON_OF: Mapping[FailureCode, Reason] = {
    FailureCode.ARCHIVE_NOT_FOUND: Reason.DATA_LOST,
    FailureCode.CHECKSUM_MISMATCH: Reason.DATA_LOST,
    FailureCode.ARCHIVE_MISMATCH: Reason.DATA_LOST,
    FailureCode.READ_BACK_MISMATCH: Reason.ACTION_FAILED,
    FailureCode.ARCHIVE_UNEXPECTED: Reason.MISMATCH,
    FailureCode.HOME_NOT_ARCHIVABLE: Reason.ACTION_FAILED,
    FailureCode.TAR_CREATE_FAILED: Reason.ACTION_FAILED,
    FailureCode.TAR_EXTRACT_FAILED: Reason.ACTION_FAILED,
    FailureCode.TOOL_MISSING: Reason.ACTION_FAILED,
    FailureCode.NO_SPACE: Reason.ACTION_FAILED,
    FailureCode.VOLUME_CREATE_FAILED: Reason.ACTION_FAILED,
    FailureCode.VOLUME_MISSING: Reason.MISMATCH,
    FailureCode.VOLUME_IN_USE: Reason.ACTION_FAILED,
    FailureCode.VOLUME_USED_ELSEWHERE: Reason.MISMATCH,
    FailureCode.CONTAINER_START_FAILED: Reason.ACTION_FAILED,
    FailureCode.CONTAINER_STOP_FAILED: Reason.ACTION_FAILED,
    FailureCode.CONTAINER_ENDED: Reason.ACTION_FAILED,
    FailureCode.CONTAINER_PAUSED: Reason.MISMATCH,
    FailureCode.CONTAINER_NOT_RUNNING: Reason.MISMATCH,
    FailureCode.EXEC_FAILED: Reason.ACTION_FAILED,
    FailureCode.OUT_OF_MEMORY: Reason.ACTION_FAILED,
    FailureCode.EVICTED: Reason.ACTION_FAILED,
    FailureCode.PREEMPTED: Reason.ACTION_FAILED,
    FailureCode.NODE_LOST: Reason.ACTION_FAILED,
    FailureCode.UNSCHEDULABLE: Reason.ACTION_FAILED,
    FailureCode.HOME_NODE_UNAVAILABLE: Reason.ACTION_FAILED,
    FailureCode.QUOTA_EXCEEDED: Reason.ACTION_FAILED,
    FailureCode.ADMISSION_REFUSED: Reason.ACTION_FAILED,
    FailureCode.NAME_TAKEN: Reason.MISMATCH,
    FailureCode.IMAGE_PULL_FAILED: Reason.ACTION_FAILED,
    FailureCode.IMAGE_UNKNOWN: Reason.ACTION_FAILED,
    FailureCode.STORAGE_JOB_FAILED: Reason.ACTION_FAILED,
    FailureCode.STALE_TOKEN: Reason.ACTION_FAILED,
    FailureCode.EFFECT_NOT_SEEN: Reason.MISMATCH,
    FailureCode.DELETION_SLOW: Reason.TIMEOUT,
    FailureCode.UNEXPECTED: Reason.ACTION_FAILED,
    FailureCode.LOCAL_RUNTIME_ERROR: Reason.UNREACHABLE,
    FailureCode.S3_ACCESS_ERROR: Reason.UNREACHABLE,
    FailureCode.K8S_API_ERROR: Reason.UNREACHABLE,
    FailureCode.DOCKER_API_ERROR: Reason.UNREACHABLE,
}
"""Every failure code and its reason."""


class CodeHubError(Exception):
    """Base of every error CodeHub raises on purpose, with a message for people."""

    code = "error"


class EffectError(CodeHubError):
    """Failure of a call to a runtime or an archive store.

    Raised by adapters, which translate library errors at their edge. ``context`` is shown to people and
    stored in the database: it never holds a secret.
    """

    code = "effect_failed"

    def __init__(self, failure: FailureCode, message: str, **context: Any) -> None:
        super().__init__(message)
        self.failure = failure
        self.message = message
        self.context: dict[str, Any] = {"code": failure.value, **context}

    @property
    def reason(self) -> Reason:
        return REASON_OF[self.failure]


@dataclass(frozen=True)
class ErrorInfo:
    """A failure as stored in ``workspaces.error_info`` and shown to people."""

    reason: Reason
    message: str
    is_terminal: bool
    operation: Operation
    error_count: int
    occurred_at: datetime
    context: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return {
            "reason": self.reason.value,
            "message": self.message,
            "is_terminal": self.is_terminal,
            "operation": self.operation.value,
            "error_count": self.error_count,
            "context": dict(self.context),
            "occurred_at": self.occurred_at.isoformat(),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "ErrorInfo":
        return cls(
            reason=Reason(value["reason"]),
            message=value["message"],
            is_terminal=value["is_terminal"],
            operation=Operation(value["operation"]),
            error_count=value["error_count"],
            occurred_at=datetime.fromisoformat(value["occurred_at"]),
            context=value["context"],
        )
