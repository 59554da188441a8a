/**
 * Why something changed, by the server's codes. The lists are the server's (`domain/causes.py`, `domain/errors.py`); a
 * test over there holds them equal, and the types here make both catalogues tell every one of them.
 */
import type { CauseCode, Reason } from "../api/types";

/** What a person asked for is said by the change itself ("Start requested: asked to start"): these need no words. */
export const SAID_BY_THE_CHANGE = [
  "created",
  "edited",
  "asked_to_start",
  "asked_to_stop",
  "asked_to_archive",
  "asked_to_delete",
  "asked_to_recover",
  "asked_to_return",
  "return_cancelled",
  "asked_for_snapshot",
  "snapshot_cancelled",
  "snapshot_kept",
  "snapshot_renamed",
  "snapshot_deleted",
  "copied",
  "queued",
  "kept_awake",
  "may_sleep",
] as const satisfies readonly CauseCode[];

export const TOLD_CAUSES = [
  "returned_to_archive",
  "adopted",
  "link_opened",
  "place_free",
  "made_room",
  "idle",
  "untouched",
  "busy",
  "forgotten",
  "restored_unbound",
] as const satisfies readonly CauseCode[];

export const FAILURE_CODES = [
  "ARCHIVE_NOT_FOUND",
  "CHECKSUM_MISMATCH",
  "ARCHIVE_MISMATCH",
  "READ_BACK_MISMATCH",
  "ARCHIVE_UNEXPECTED",
  "HOME_NOT_ARCHIVABLE",
  "TAR_CREATE_FAILED",
  "TAR_EXTRACT_FAILED",
  "TOOL_MISSING",
  "NO_SPACE",
  "VOLUME_CREATE_FAILED",
  "VOLUME_MISSING",
  "VOLUME_IN_USE",
  "VOLUME_USED_ELSEWHERE",
  "CONTAINER_START_FAILED",
  "CONTAINER_STOP_FAILED",
  "CONTAINER_ENDED",
  "CONTAINER_PAUSED",
  "CONTAINER_NOT_RUNNING",
  "EXEC_FAILED",
  "OUT_OF_MEMORY",
  "EVICTED",
  "PREEMPTED",
  "NODE_LOST",
  "UNSCHEDULABLE",
  "HOME_NODE_UNAVAILABLE",
  "QUOTA_EXCEEDED",
  "ADMISSION_REFUSED",
  "NAME_TAKEN",
  "IMAGE_PULL_FAILED",
  "IMAGE_UNKNOWN",
  "STORAGE_JOB_FAILED",
  "STALE_TOKEN",
  "EFFECT_NOT_SEEN",
  "DELETION_SLOW",
  "UNEXPECTED",
  "LOCAL_RUNTIME_ERROR",
  "S3_ACCESS_ERROR",
  "K8S_API_ERROR",
  "DOCKER_API_ERROR",
] as const;

export const REASONS = [
  "Mismatch",
  "Unreachable",
  "ActionFailed",
  "Timeout",
  "RetryExceeded",
  "DataLost",
] as const satisfies readonly Reason[];

export type ToldCause = (typeof TOLD_CAUSES)[number];
export type FailureCode = (typeof FAILURE_CODES)[number];
