/**
 * In which order a person's workspaces are listed: trouble, then what runs, then what was used most recently. Within
 * the first two by name, the way people count: "run 2" stands before "run 10". Pure; the page of workspaces calls it.
 */
import type { Status, Workspace } from "../api/types";
import type { Language } from "../i18n/messages";

const FIRST: Partial<Record<Status, number>> = {
  error: 0,
  running: 1,
  starting: 1,
  restoring: 1,
  provisioning: 1,
  deleting: 3,
  deleted: 3,
};
const REST = 2;

export function inOrder(workspaces: Iterable<Workspace>, language: Language): Workspace[] {
  const names = new Intl.Collator(language, { numeric: true, sensitivity: "base" });
  return [...workspaces].sort((a, b) => {
    const rank = rankOf(a);
    const recent = rank === REST ? usedAt(b) - usedAt(a) : 0;
    return rank - rankOf(b) || recent || names.compare(a.name, b.name) || a.id.localeCompare(b.id);
  });
}

/**
 * The same workspaces in the order they had: what moves away under the pointer is a wrong click. What was not there
 * before comes first, because somebody has just made it.
 */
export function asBefore(sorted: Workspace[], before: readonly string[]): Workspace[] {
  const places = new Map(before.map((id, place) => [id, place]));
  return sorted.toSorted((a, b) => (places.get(a.id) ?? -1) - (places.get(b.id) ?? -1));
}

function rankOf(ws: Workspace): number {
  return FIRST[ws.status] ?? REST;
}

function usedAt(ws: Workspace): number {
  const times = [ws.activity.last_seen_at, ws.last_access_at].map((at) => (at ? Date.parse(at) : 0));
  return Math.max(...times.map((time) => time || 0));
}
