/**
 * What is happening to a workspace, what is wanted of it and what happens next, each in a few words. Pure, so that
 * every wording can be tested at every moment.
 */
import type { DesiredState, Operation, Workspace } from "../api/types";
import type { Language, Messages } from "../i18n/messages";
import { clockTime, duration } from "./time";

/** Where a running operation leads: the wish beyond it is still to come. */
const LEADS_TO: Record<Operation, DesiredState | null> = {
  NONE: null,
  PROVISIONING: "STANDBY",
  RESTORING: "STANDBY",
  STARTING: "RUNNING",
  STOPPING: "STANDBY",
  ARCHIVING: "PENDING",
  DELETING: null,
};

/** The wish that has not come true yet, or null when what is wanted is what is. */
export function openWish(ws: Workspace): DesiredState | "DELETED" | null {
  if (ws.deleted_at !== null) return "DELETED";
  if (ws.health_status === "ERROR") return null;
  return ws.desired_state === ws.observed_status ? null : ws.desired_state;
}

/** The wish in words: "Start requested", or "then starts" while an operation on the way to it runs. */
export function wishWords(m: Messages, ws: Workspace): string | null {
  const wish = openWish(ws);
  if (wish === null) return null;
  if (wish === "DELETED") return ws.operation === "DELETING" ? null : m.wish.deletion;
  if (ws.operation === "NONE") return m.wish.wanted[wish];
  return LEADS_TO[ws.operation] === wish ? null : m.wish.then[wish];
}

/** "Sleeps in 4 min" and its kin: the promise of the server, in the server's time. */
export function nextWords(m: Messages, language: Language, ws: Workspace, nowMs: number): string {
  if (ws.error_info?.is_terminal || ws.health_status === "ERROR") return m.next.needsPerson;
  const wish = wishWords(m, ws);
  const nextTryAt = ws.operation === "NONE" ? ws.error_info?.context.next_try_at : null;
  if (typeof nextTryAt === "string" && ws.desired_state === "PENDING")
    return m.next.notArchived(duration(m, Math.max(1, (Date.parse(nextTryAt) - nowMs) / 1000)));
  if (ws.error_info) return m.next.retrying(Math.min(4, ws.error_info.error_count + 1));
  if (wish) return wish;
  if (ws.operation !== "NONE") return "";
  const awake = ws.awake_until !== null && Date.parse(ws.awake_until) > nowMs ? ws.awake_until : null;
  const next = ws.activity.next;
  // While it is the promise to a person that holds it, the promise is what they want to read.
  const held = awake !== null && (!next || Date.parse(next.at) <= Date.parse(awake));
  if (held && ws.observed_status !== "PENDING") return m.next.awakeUntil(clockTime(language, awake, nowMs));
  if (next) return promise(m, next.to, (Date.parse(next.at) - nowMs) / 1000);
  if (ws.observed_status === "PENDING") return ws.archive_key ? m.next.archived : m.next.fresh;
  if (ws.observed_status === "RUNNING") {
    if (ws.standby_ttl_seconds === 0) return m.next.neverSleeps;
    return ws.activity.connections === null ? "" : m.next.inUse;
  }
  return ws.archive_ttl_seconds === 0 ? m.next.neverArchived : "";
}

function promise(m: Messages, to: string, seconds: number): string {
  const target = to.toUpperCase();
  const soon = !(seconds >= 1); // the moment has come, or the date made no sense
  if (target === "STANDBY") return soon ? m.next.sleepsSoon : m.next.sleepsIn(duration(m, seconds));
  if (target === "RUNNING") return soon ? m.next.startsSoon : m.next.startsIn(duration(m, seconds));
  return soon ? m.next.archivedSoon : m.next.archivedIn(duration(m, seconds));
}

/** Whether this workspace holds one of its owner's running places: the rule of the server's limit. */
export function holdsPlace(ws: Workspace): boolean {
  // What is broken and does not run holds none: recovering takes one anew.
  const broken =
    ws.error_info?.is_terminal === true && ws.operation === "NONE" && ws.observed_status !== "RUNNING";
  if (ws.deleted_at === null && ws.desired_state === "RUNNING" && !broken) return true;
  if (ws.observed_status !== "RUNNING") return false;
  // A stop or a delete frees its place with the wish; in error nobody acts on the wish, so the place stays taken.
  if (ws.operation === "NONE") return ws.deleted_at === null && ws.status === "error";
  return ws.operation !== "STOPPING" && ws.operation !== "DELETING";
}

export function connectionWords(m: Messages, count: number | null): string {
  if (count === null) return m.connections.unknown;
  return count === 0 ? m.connections.none : m.connections.some(count);
}
