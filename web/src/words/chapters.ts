/**
 * The history of a workspace as people tell it: "Worked 42 min. Slept after 5 min idle." What CodeHub did because of
 * one cause is one chapter; its steps are shown on demand. Pure. The command line tells the same
 * (`cli/chapters.py`); `chapters.json` holds both to the same words.
 */
import type { DesiredState, HistoryEntry } from "../api/types";
import type { Language, Messages } from "../i18n/messages";
import { causeWords, historyLine, isWorthShowing, type Line } from "./history";
import { bytes } from "./size";
import { duration } from "./time";

export interface Chapter {
  /** The entry that began it. */
  first: HistoryEntry;
  /** What somebody wanted with it; null: an entry that stands for itself. */
  wanted: DesiredState | null;
  done: boolean;
  tookSeconds: number;
  /** How long it had run when it was to stop; null: it did not run, or nobody knows since when. */
  ranSeconds: number | null;
  restored: boolean;
  failures: number;
  archiveKey: string | null;
}

const MACHINERY = ["operation", "observed_status", "archive_key", "health_status", "error_info"];

/** Entries, newest first, as chapters, newest first. */
export function chapters(entries: readonly HistoryEntry[]): Chapter[] {
  const told: Chapter[] = [];
  let open: Chapter | null = null;
  let runningSince: string | null = null;
  for (const entry of entries.toReversed()) {
    const { desired_state, observed_status } = entry.changes;
    if (desired_state) {
      open = chapter(
        entry,
        desired_state[1] as DesiredState,
        desired_state[0] === "RUNNING" ? runningSince : null,
      );
      told.push(open);
      absorb(open, entry);
    } else if (isMachinery(entry) && open && !open.done) absorb(open, entry);
    else if (isWorthShowing(entry) && !isMereEnd(entry)) told.push(chapter(entry, null, null));
    if (observed_status) runningSince = observed_status[1] === "RUNNING" ? entry.at : null;
  }
  return told.reverse();
}

function chapter(first: HistoryEntry, wanted: DesiredState | null, runningSince: string | null): Chapter {
  return {
    first,
    wanted,
    done: false,
    tookSeconds: 0,
    ranSeconds: runningSince === null ? null : secondsBetween(runningSince, first.at),
    restored: false,
    failures: 0,
    archiveKey: null,
  };
}

/** Steps of the machinery, and failures it will try again by itself. What needs a person stands for itself. */
function isMachinery(entry: HistoryEntry): boolean {
  const failure = entry.changes.error_info?.[1] as { is_terminal?: boolean } | null | undefined;
  const cleared = failure === null && !entry.changes.operation;
  return (
    !failure?.is_terminal &&
    !cleared &&
    entry.changes.health_status?.[1] !== "ERROR" &&
    Object.keys(entry.changes).every((column) => MACHINERY.includes(column))
  );
}

/** The end of an operation whose outcome was told already. */
function isMereEnd({ changes }: HistoryEntry): boolean {
  return changes.operation?.[1] === "NONE" && !changes.error_info?.[1] && !changes.observed_status;
}

function absorb(open: Chapter, { changes, at }: HistoryEntry): void {
  if (changes.operation?.[1] === "RESTORING") open.restored = true;
  if (changes.error_info?.[1]) open.failures += 1;
  if (changes.archive_key?.[1]) open.archiveKey = String(changes.archive_key[1]);
  open.done = changes.observed_status?.[1] === open.wanted;
  open.tookSeconds = secondsBetween(open.first.at, at);
}

const secondsBetween = (from: string, to: string) => (Date.parse(to) - Date.parse(from)) / 1000;

/** One chapter in a sentence or two. `sizes`: how many bytes each archive that is still kept has. */
export function chapterLine(
  m: Messages,
  language: Language,
  told: Chapter,
  sizes: ReadonlyMap<string, number>,
): Line {
  const line = historyLine(m, told.first);
  if (told.wanted === null) return line;
  const actor = told.first.actor?.startsWith("user:") ? line.actor : null;
  const ran = ranWords(m, told);
  const what = told.done ? doneWords(m, language, told, sizes) : line.text;
  const text = ran ? m.story.join(ran, what) : what;
  return {
    ...line,
    actor,
    text,
    tone: told.done ? (told.wanted === "STANDBY" ? "plain" : "good") : line.tone,
  };
}

const idleSeconds = ({ first }: Chapter) =>
  first.cause_code === "idle" ? (first.cause_params.seconds ?? null) : null;

function ranWords(m: Messages, told: Chapter): string | null {
  if (told.ranSeconds === null) return null;
  const idle = idleSeconds(told);
  if (idle === null) return m.story.ran(duration(m, told.ranSeconds));
  const worked = told.ranSeconds - idle;
  return worked >= 1 ? m.story.worked(duration(m, worked)) : null;
}

function doneWords(
  m: Messages,
  language: Language,
  told: Chapter,
  sizes: ReadonlyMap<string, number>,
): string {
  const created = told.first.version === 1;
  if (told.wanted === "PENDING" && created) return m.history.created;
  const what = {
    RUNNING: () => startedWords(m, told, created),
    STANDBY: () => sleptWords(m, told),
    PENDING: () => archivedWords(m, language, told, sizes),
  }[told.wanted ?? "STANDBY"]();
  const failed = told.failures > 0 ? m.story.afterFailures(what, told.failures) : what;
  const cause = idleSeconds(told) === null ? causeWords(m, told.first) : null;
  return cause ? m.history.withCause(failed, cause) : failed;
}

function startedWords(m: Messages, told: Chapter, created: boolean): string {
  const time = duration(m, Math.max(1, told.tookSeconds));
  if (created) return m.story.createdAndStarted(time);
  return told.restored ? m.story.restoredAndStarted(time) : m.story.started(time);
}

function sleptWords(m: Messages, told: Chapter): string {
  const idle = idleSeconds(told);
  return idle === null ? m.history.desired.STANDBY : m.story.sleptAfter(duration(m, idle));
}

function archivedWords(m: Messages, language: Language, told: Chapter, sizes: ReadonlyMap<string, number>) {
  const size = told.archiveKey === null ? undefined : sizes.get(told.archiveKey);
  return size === undefined ? m.story.archived : m.story.archivedBytes(bytes(language, size));
}
