/** For how long nobody has used a workspace that runs. Pure. */
import type { Workspace } from "../api/types";

const IN_USE_S = 60;

/** Seconds without use; null: somebody uses it, it works by itself, or nobody can tell. */
export function idleSeconds(ws: Workspace, nowMs: number): number | null {
  const { awake, connections, last_seen_at: seen } = ws.activity;
  if (ws.observed_status !== "RUNNING" || connections === null || awake?.work) return null;
  const since = awake?.since ?? seen ?? ws.last_access_at;
  const seconds = Math.max(0, (nowMs - Date.parse(since)) / 1000);
  return connections > 0 && seconds < IN_USE_S ? null : seconds;
}
