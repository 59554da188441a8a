/**
 * The history of a workspace in sentences. An entry lists the columns that changed; several may change at once, and
 * the first of `RULES` that applies chooses the sentence.
 */
import type { ErrorInfo, HistoryEntry } from "../api/types";
import type { Messages } from "../i18n/messages";
import type { ToldCause } from "./causes";
import { duration } from "./time";
import { troubleWords } from "./trouble";

export type Tone = "plain" | "desired" | "good" | "bad" | "quiet";

export interface Line {
  text: string;
  /** Somebody else's words about it, quoted. */
  detail: string | null;
  tone: Tone;
  actor: string | null;
}

type Change = readonly [unknown, unknown];
type Rule = (m: Messages, changes: Record<string, Change>, entry: HistoryEntry) => [string, Tone] | null;

/** An operation that merely ended tells nothing that its outcome did not tell: what was observed stands beside it. */
export function isWorthShowing(entry: HistoryEntry): boolean {
  const columns = Object.keys(entry.changes).filter((column) => !BOOKKEEPING.includes(column));
  return (
    entry.version === 1 ||
    columns.some((column) => column !== "operation" || entry.changes.operation?.[1] !== "NONE")
  );
}

const BOOKKEEPING = [
  "op_id",
  "op_seq",
  "op_started_at",
  "op_acted_at",
  "error_count",
  "last_retry_at",
  "previous_status",
];

export function historyLine(m: Messages, entry: HistoryEntry): Line {
  const [what, tone] = RULES.reduce<[string, Tone] | null>(
    (found, rule) => found ?? rule(m, entry.changes, entry),
    null,
  ) ?? [m.history.changed, "quiet"];
  const cause = causeWords(m, entry);
  return {
    text: cause ? m.history.withCause(what, cause) : what,
    detail: detailOf(entry),
    tone,
    actor: actorWords(m, entry.actor),
  };
}

const wasEmpty = (change: Change | undefined) => change !== undefined && change[0] == null;
const isEmpty = (change: Change | undefined) => change !== undefined && change[1] == null;

const RULES: Rule[] = [
  (m, c, e) => (e.version === 1 || "created_at" in c ? [m.history.created, "plain"] : null),
  (m, c) => (wasEmpty(c.deleted_at) ? [m.history.deletion, "desired"] : null),
  (m, c) => (c.error_info && !isEmpty(c.error_info) ? failure(m, c.error_info[1]) : null),
  (m, c) => (c.error_info && isEmpty(c.error_info) && !c.operation ? [m.history.recovered, "good"] : null),
  (m, _c, e) => (e.cause_code === "copied" ? [m.history.copied, "plain"] : null),
  (m, c) => (c.restore_from ? returning(m, c) : null),
  (m, c, e) => snapshot(m, c, e),
  (m, c) => (c.desired_state ? named(m.history.desired, c.desired_state[1], "desired") : null),
  (m, c) => (c.queued_at ? [isEmpty(c.queued_at) ? m.history.leftLine : m.history.inLine, "desired"] : null),
  (m, c) => (c.archive_key && !isEmpty(c.archive_key) ? [m.history.archived, "good"] : null),
  (m, c) =>
    c.operation && c.operation[1] !== "NONE" ? named(m.history.operation, c.operation[1], "plain") : null,
  (m, c) => (c.observed_status ? observed(m, c.observed_status[1]) : null),
  (m, c) => (c.health_status ? health(m, c.health_status[1]) : null),
  (m, c) => (c.operation ? [m.history.operation.NONE, "quiet"] : null),
  (m, c) => (c.name ? [m.history.renamed(String(c.name[0]), String(c.name[1])), "plain"] : null),
  (m, c) => (c.pinned ? [c.pinned[1] ? m.history.pinned : m.history.unpinned, "plain"] : null),
  (m, c) => (c.tags ? [tagged(m, c.tags[1]), "plain"] : null),
  (m, c) =>
    c.awake_until ? [isEmpty(c.awake_until) ? m.history.sleepAgain : m.history.keptAwake, "desired"] : null,
  (m, c) => (Object.keys(c).length === 0 ? [m.history.note, "plain"] : null),
  (m, c) => (EDITS.some((column) => column in c) ? [m.history.edited, "plain"] : null),
];

const EDITS = ["description", "memo", "standby_ttl_seconds", "archive_ttl_seconds", "image_ref"];

function snapshot(m: Messages, c: Record<string, Change>, entry: HistoryEntry): [string, Tone] | null {
  if (!c.snapshots && !c.snapshot_as) return null;
  switch (entry.cause_code) {
    case "asked_for_snapshot":
      return [m.history.snapshot.asked, "desired"];
    case "snapshot_renamed":
      return [m.history.snapshot.renamed, "plain"];
    case "snapshot_deleted":
      return [m.history.snapshot.deleted, "plain"];
    default:
      return c.snapshots ? [m.history.snapshot.taken, "good"] : [m.history.snapshot.cancelled, "plain"];
  }
}

function tagged(m: Messages, tags: unknown): string {
  return Array.isArray(tags) && tags.length > 0 ? m.history.tagged(tags.join(", ")) : m.history.untagged;
}

function returning(m: Messages, c: Record<string, Change>): [string, Tone] {
  if (!isEmpty(c.restore_from)) return [m.history.returnAsked, "desired"];
  return c.archive_key ? [m.history.returned, "good"] : [m.history.stayed, "plain"];
}

function named(words: Record<string, string>, key: unknown, tone: Tone): [string, Tone] | null {
  const text = words[String(key)];
  return text === undefined ? null : [text, tone];
}

function failure(m: Messages, info: unknown): [string, Tone] {
  const terminal =
    typeof info === "object" && info !== null && (info as { is_terminal?: boolean }).is_terminal;
  return [terminal ? m.history.error : m.history.retry, "bad"];
}

function observed(m: Messages, status: unknown): [string, Tone] | null {
  return named(m.history.observed, status, status === "RUNNING" ? "good" : "plain");
}

function health(m: Messages, status: unknown): [string, Tone] {
  return status === "ERROR" ? [m.history.healthError, "bad"] : [m.history.healthOk, "good"];
}

/** The cause by its code, in the reader's language; null where the change itself says it, or nothing is known. */
export function causeWords(m: Messages, entry: HistoryEntry): string | null {
  const info = failureOf(entry);
  if (info) return troubleWords(m, info).what;
  const words = m.history.causes[entry.cause_code as ToldCause] as ((time: string) => string) | undefined;
  return words ? words(duration(m, entry.cause_params.seconds ?? 0)) : null;
}

/** What somebody else said (an engine, a storage job): quoted as it is, in whatever language it was said. */
export function detailOf(entry: HistoryEntry): string | null {
  const info = failureOf(entry);
  if (!info) return entry.cause_code === null ? entry.cause : null;
  const last = info.context.last_error;
  if (typeof last === "string") return last;
  return info.reason === "Timeout" ? null : info.message || null;
}

function failureOf(entry: HistoryEntry): ErrorInfo | null {
  const info = entry.changes.error_info?.[1];
  if (typeof info !== "object" || info === null || !("reason" in info)) return null;
  return { message: "", context: {}, ...info } as ErrorInfo;
}

function actorWords(m: Messages, actor: string | null): string | null {
  if (!actor) return null;
  const name = actor.replace(/^(coordinator|user|system):/, "");
  const aliases: Record<string, string> = { wc: "reconciler", ttl_manager: "ttl" };
  const known = m.history.actors as Record<string, string>;
  return known[aliases[name] ?? name] ?? name;
}
