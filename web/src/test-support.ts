/** A workspace for tests: asleep, healthy, wanted asleep. Say what differs. */
import type { Workspace } from "./api/types";

export function aWorkspace(change: Partial<Workspace> = {}): Workspace {
  return {
    id: "0191f3a2-0000-7000-8000-000000000001",
    owner_id: "0191f3a2-0000-7000-8000-0000000000aa",
    name: "atlas",
    description: "",
    memo: "",
    image_ref: "jupyterlab",
    desired_state: "STANDBY",
    standby_ttl_seconds: 300,
    archive_ttl_seconds: 86400,
    last_access_at: "2026-01-01T00:00:00Z",
    awake_until: null,
    deleted_at: null,
    observed_status: "STANDBY",
    health_status: "OK",
    observed_at: null,
    operation: "NONE",
    op_id: null,
    op_started_at: null,
    archive_key: null,
    error_count: 0,
    error_info: null,
    previous_status: null,
    version: 1,
    created_at: "2026-01-01T00:00:00Z",
    updated_at: "2026-01-01T00:00:00Z",
    status: "standby",
    progress: null,
    url: "/w/x/",
    activity: { connections: 0, last_seen_at: null, kind: null, next: null },
    ...change,
  };
}
