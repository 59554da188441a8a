/**
 * What the API says, as types. Columns keep their names from the database, so that a field seen here can be
 * looked up in the schema, the logs and the audit without translation.
 */

export type DesiredState = "PENDING" | "STANDBY" | "RUNNING";
export type ObservedStatus = DesiredState | "DELETED";
export type Operation =
  "NONE" | "PROVISIONING" | "RESTORING" | "STARTING" | "STOPPING" | "ARCHIVING" | "DELETING";

/** One word for people, judged by the server: the dashboard never derives it from the axes. */
export type Status =
  | "new"
  | "archived"
  | "standby"
  | "running"
  | "provisioning"
  | "restoring"
  | "starting"
  | "stopping"
  | "archiving"
  | "deleting"
  | "deleted"
  | "error";

export interface ErrorInfo {
  reason: string;
  message: string;
  is_terminal: boolean;
  operation: Operation;
  error_count: number;
  context: Record<string, unknown>;
  occurred_at: string;
}

export interface NextChange {
  to: string;
  at: string;
  why: string;
}

/** Null where nobody can tell at the moment (Redis is away). */
export interface Activity {
  connections: number | null;
  last_seen_at: string | null;
  kind: string | null;
  next: NextChange | null;
}

export interface Workspace {
  id: string;
  owner_id: string;
  name: string;
  description: string;
  memo: string;
  image_ref: string;
  desired_state: DesiredState;
  standby_ttl_seconds: number;
  archive_ttl_seconds: number;
  last_access_at: string;
  awake_until: string | null;
  deleted_at: string | null;
  observed_status: ObservedStatus;
  health_status: "OK" | "ERROR";
  observed_at: string | null;
  operation: Operation;
  op_id: string | null;
  op_started_at: string | null;
  archive_key: string | null;
  error_count: number;
  error_info: ErrorInfo | null;
  previous_status: ObservedStatus | null;
  version: number;
  created_at: string;
  updated_at: string;
  status: Status;
  progress: number | null;
  url: string;
  activity: Activity;
}

export type Role = "admin" | "user";

export interface User {
  id: string;
  username: string;
  role: Role;
  disabled_at: string | null;
  created_at: string;
}

export interface Page<T> {
  items: T[];
  next_cursor: string | null;
}

export interface HistoryEntry {
  seq: number;
  version: number;
  at: string;
  changes: Record<string, [unknown, unknown]>;
  actor: string | null;
  /** As it was recorded, in English. */
  cause: string | null;
  /** Null: free text, for example an engine's own message. */
  cause_code: string | null;
  cause_params: Record<string, number>;
}

export interface ArchiveGeneration {
  key: string;
  bytes: number;
  files: number;
  created_at: string;
}

export interface ApiToken {
  id: string;
  name: string;
  created_at: string;
  expires_at: string | null;
  last_used_at: string | null;
}

export interface Usage {
  used: number;
  allowed: number;
}

export interface Limits {
  user: Usage;
  global: Usage;
}

export interface Images {
  /** Empty: any reference may be written down. */
  items: { name: string }[];
  default: string | null;
}

export interface Leader {
  is_leader: boolean;
  holder_id: string | null;
  acquired_at: string | null;
  epoch: number | null;
  last_tick_at: string | null;
  last_error: string | null;
  /** Engines that do not answer, with what they last said. */
  away: Record<string, unknown>;
  /** Others that lead the same coordinator under another COORDINATOR_LOCK_ID. */
  rivals: { holder_id: string; lock_name: string }[];
}

export interface CoordinatorHealth {
  node_id: string;
  uptime_seconds: number;
  is_leader: boolean;
  coordinators: Record<string, Leader>;
}

export interface Overview {
  counts: Partial<Record<Status, number>>;
  leaders: {
    name: string;
    holder_id: string;
    acquired_at: string;
    epoch: number;
    last_tick_at: string | null;
  }[];
  archive_bytes: number | null;
}

export interface Orphan {
  kind: "container" | "volume" | "archive";
  name: string;
  first_seen_at: string | null;
  bytes: number | null;
  why: "unknown_workspace" | "expiring" | "only_copy";
}

export interface AuditEntry {
  seq: number;
  at: string;
  actor: string;
  action: string;
  subject: string | null;
  detail: Record<string, unknown>;
}
