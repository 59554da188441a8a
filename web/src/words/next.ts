/**
 * What is happening to a workspace, what is wanted of it and what happens next, each in a few words. Pure, so that
 * every wording can be tested at every moment.
 */
import type { DesiredState, Operation, Workspace } from "../api/types";
import type { Language, Messages } from "../i18n/messages";
import { clockTime, dateTime, duration } from "./time";

/** Where a running operation leads; a desired state beyond it is still to come. */
const LEADS_TO: Record<Operation, DesiredState | null> = {
  NONE: null,
  PROVISIONING: "STANDBY",
  RESTORING: "STANDBY",
  STARTING: "RUNNING",
  STOPPING: "STANDBY",
  ARCHIVING: "PENDING",
  DELETING: null,
};

/** Sleep this near is announced, with a button against it. */
export const NOTICE_MS = 300_000;
const UNTOUCHED_SHOWN_S = 60;

/** The desired state that is not yet observed, or null when what is wanted is what is. */
export function pendingState(ws: Workspace): DesiredState | "DELETED" | null {
  if (ws.deleted_at !== null) return "DELETED";
  if (ws.health_status === "ERROR") return null;
  return ws.desired_state === ws.observed_status ? null : ws.desired_state;
}

/** The pending state in words: "Start requested", or "then starts" while an operation on the way to it runs. */
export function pendingWords(m: Messages, ws: Workspace): string | null {
  const pending = pendingState(ws);
  if (pending === null) return null;
  if (pending === "DELETED") return ws.operation === "DELETING" ? null : m.desired.deletion;
  if (ws.operation === "NONE") return m.desired.wanted[pending];
  return LEADS_TO[ws.operation] === pending ? null : m.desired.then[pending];
}

/** What the words depend on besides the workspace. */
export interface Circumstances {
  language: Language;
  /** The server's time. */
  nowMs: number;
  /** How often the server tries before a person is needed; null: not known yet. */
  attempts: number | null;
}

/** "Sleeps in 4 min" and its kin: the promise of the server, in the server's time. */
export function nextWords(m: Messages, ws: Workspace, { language, nowMs, attempts }: Circumstances): string {
  if (ws.error_info?.is_terminal || ws.health_status === "ERROR") return m.next.needsPerson;
  if (ws.restore_from) return m.restore.willReturn(dateTime(language, ws.restore_from.created_at));
  const pending = pendingWords(m, ws);
  const nextTryAt = ws.operation === "NONE" ? ws.error_info?.context.next_try_at : null;
  if (typeof nextTryAt === "string" && ws.desired_state === "PENDING")
    return m.next.notArchived(duration(m, Math.max(1, (Date.parse(nextTryAt) - nowMs) / 1000)));
  if (ws.queued_at) return queueWords(m, ws);
  if (ws.waiting_for) return waitWords(m, ws.waiting_for);
  if (ws.error_info) return retryWords(m, ws.error_info.error_count + 1, attempts);
  if (pending) return pending;
  if (ws.operation !== "NONE") return "";
  const awake = ws.awake_until !== null && Date.parse(ws.awake_until) > nowMs ? ws.awake_until : null;
  const next = ws.activity.next;
  // While it is the promise to a person that holds it, the promise is what they want to read.
  const held = awake !== null && (!next || Date.parse(next.at) <= Date.parse(awake));
  if (held && ws.observed_status !== "PENDING") return m.next.awakeUntil(clockTime(language, awake, nowMs));
  const because = awakeWords(m, ws, nowMs);
  // What comes within five minutes is said before what holds it awake.
  if (because && (!next || Date.parse(next.at) - nowMs > NOTICE_MS)) return because;
  if (next) return promise(m, next.to, (Date.parse(next.at) - nowMs) / 1000);
  if (ws.observed_status === "PENDING") return ws.archive_key ? m.next.archived : m.next.fresh;
  if (ws.observed_status === "RUNNING") {
    if (ws.standby_ttl_seconds === 0) return m.next.neverSleeps;
    return ws.activity.connections === null ? "" : m.next.inUse;
  }
  return ws.archive_ttl_seconds === 0 ? m.next.neverArchived : "";
}

/** Where it stands among those that wait for a running place. */
function queueWords(m: Messages, ws: Workspace): string {
  const queue = ws.activity.queue;
  if (!queue) return m.next.queued;
  const first = queue.limit === "limit_user" ? m.next.queueOwn : m.next.queueNext;
  const where = queue.place > 1 ? m.next.queuePlace(queue.place) : first;
  const seconds = queue.estimated_seconds;
  return seconds === null ? where : m.next.queueAbout(where, duration(m, Math.max(1, seconds)));
}

/** Whether sleep is near enough to be announced: five minutes ahead, or half the idle time if that is less. */
export function sleepIsNear(ws: Workspace, nowMs: number): boolean {
  const next = ws.activity.next;
  if (next?.to !== "STANDBY" || ws.desired_state !== "RUNNING") return false;
  return Date.parse(next.at) - nowMs <= Math.min(NOTICE_MS, ws.standby_ttl_seconds * 500);
}

/** What keeps a running workspace awake: "Open in a window, untouched for 40 min"; null: nothing worth saying. */
function awakeWords(m: Messages, ws: Workspace, nowMs: number): string | null {
  const awake = ws.activity.awake;
  const seconds = awake?.since ? (nowMs - Date.parse(awake.since)) / 1000 : 0;
  if (awake?.work)
    return m.next.busy(m.next.work[awake.work.what](awake.work.name), duration(m, Math.max(1, seconds)));
  if (awake?.because !== "open") return null;
  return seconds < UNTOUCHED_SHOWN_S ? m.next.inUse : m.next.untouched(duration(m, seconds));
}

function retryWords(m: Messages, attempt: number, attempts: number | null): string {
  return attempts === null ? m.next.retryingSoon : m.next.retrying(Math.min(attempt, attempts), attempts);
}

function promise(m: Messages, to: DesiredState, seconds: number): string {
  const soon = !(seconds >= 1); // the moment has come, or the date made no sense
  if (to === "STANDBY") return soon ? m.next.sleepsSoon : m.next.sleepsIn(duration(m, seconds));
  if (to === "RUNNING") return soon ? m.next.startsSoon : m.next.startsIn(duration(m, seconds));
  return soon ? m.next.archivedSoon : m.next.archivedIn(duration(m, seconds));
}

export function connectionWords(m: Messages, count: number | null): string {
  if (count === null) return m.connections.unknown;
  return count === 0 ? m.connections.none : m.connections.some(count);
}

/** It waits for its IDE, which is being installed, or for a node of the cluster, in the scheduler's words. */
function waitWords(m: Messages, reason: string): string {
  const installing = /^installing (.+) (\d+) %$/.exec(reason);
  if (!installing) return m.next.waitsForNode(reason);
  return m.next.waitsForInstallation(installing[1] ?? "", Number(installing[2]));
}
