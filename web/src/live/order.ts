/**
 * In which order a person's workspaces are listed: what is pinned, then trouble, what runs, and what was used most
 * recently. What is in trouble or runs is sorted by name, the way people count: "run 2" stands before "run 10". Pure; the page of workspaces calls it.
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
  const keyed = Array.from(workspaces, (ws) => {
    const rank = FIRST[ws.status] ?? REST;
    return { ws, rank, used: rank === REST ? usedAt(ws) : 0 };
  });
  keyed.sort(
    (a, b) =>
      Number(b.ws.pinned) - Number(a.ws.pinned) ||
      a.rank - b.rank ||
      b.used - a.used ||
      names.compare(a.ws.name, b.ws.name) ||
      a.ws.id.localeCompare(b.ws.id),
  );
  return keyed.map(({ ws }) => ws);
}

/**
 * The same workspaces in the order they had: what moves away under the pointer is a wrong click. What was not there
 * before comes first, because somebody has just made it.
 */
export function asBefore(sorted: Workspace[], before: readonly string[]): Workspace[] {
  const places = new Map(before.map((id, place) => [id, place]));
  return sorted.toSorted((a, b) => (places.get(a.id) ?? -1) - (places.get(b.id) ?? -1));
}

function usedAt(ws: Workspace): number {
  const times = [ws.activity.last_seen_at, ws.last_access_at].map((at) => (at ? Date.parse(at) : 0));
  return Math.max(...times.map((time) => time || 0));
}
