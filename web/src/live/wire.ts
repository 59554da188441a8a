/**
 * From an event on the wire to an event of the merge. Tolerant in what it reads: an event it does not understand is
 * dropped, because the next snapshot tells the same again.
 */
import type { Activity, Workspace } from "../api/types";
import type { LiveEvent } from "./merge";

export const EVENT_NAMES = [
  "snapshot",
  "state_changed",
  "progress",
  "activity",
  "error",
  "deleted",
  "resync",
  "heartbeat",
] as const;
export type EventName = (typeof EVENT_NAMES)[number];

export function decode(name: EventName, data: string, lastEventId: string): LiveEvent | null {
  if (name === "resync") return { type: "resync" };
  const value = parse(data);
  if (value === null || name === "heartbeat") return null;
  switch (name) {
    case "snapshot":
      return Array.isArray(value.ids) ? { type: "snapshot", ids: value.ids.map(String) } : null;
    case "progress":
      return decodeProgress(value);
    case "activity": {
      const id = idOf(value);
      return id && isActivity(value.activity) ? { type: "activity", id, activity: value.activity } : null;
    }
    case "deleted": {
      const id = idOf(value) ?? lastEventId.split(":")[0];
      return id ? { type: "deleted", id } : null;
    }
    case "state_changed":
    case "error":
      return isWorkspace(value) ? { type: "state", workspace: value } : null;
  }
}

function decodeProgress(value: Record<string, unknown>): LiveEvent | null {
  const id = idOf(value);
  if (!id) return null;
  const progress = typeof value.progress === "number" ? value.progress : null;
  const operation = typeof value.operation === "string" ? value.operation : null;
  const waitingFor = typeof value.waiting_for === "string" ? value.waiting_for : null;
  return { type: "progress", id, progress, operation, waitingFor };
}

function isActivity(value: unknown): value is Activity {
  return typeof value === "object" && value !== null && "connections" in value && "next" in value;
}

/** The server's time out of a heartbeat, if it is one. */
export function heartbeatTime(data: string): number | null {
  const at = parse(data)?.at;
  const time = typeof at === "string" ? Date.parse(at) : NaN;
  return Number.isNaN(time) ? null : time;
}

function idOf(value: Record<string, unknown>): string | null {
  const id = value.id ?? value.workspace_id;
  return typeof id === "string" ? id : null;
}

function isWorkspace(value: Record<string, unknown>): value is Record<string, unknown> & Workspace {
  return (
    typeof value.id === "string" && typeof value.version === "number" && typeof value.status === "string"
  );
}

function parse(data: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(data);
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : null;
  } catch {
    return null;
  }
}
