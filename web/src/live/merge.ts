/**
 * How the events of one stream become the list of workspaces on screen. Pure: a state and an event give a state.
 *
 * The invariant: whatever is lost, repeated or reordered on the way, after the next complete snapshot the list equals
 * the database. Three rules keep it:
 *  - a workspace is only ever replaced by the same or a newer `version` of itself (equal, because activity and the
 *    next change are read fresh each time and are not versioned);
 *  - a snapshot names every id there is, so whatever it does not name is gone, however its deletion was missed;
 *  - a snapshot clears all guards: versions are compared since the last snapshot only. A database restored from a
 *    backup may count from lower numbers, and must still win.
 */
import type { Activity, Workspace } from "../api/types";

export interface LiveState {
  /** In the order the server named them, then in order of appearance. */
  readonly workspaces: ReadonlyMap<string, Workspace>;
  /** Lower versions are ignored. An id without a guard accepts any version. */
  readonly guards: ReadonlyMap<string, number>;
  /** Named by the snapshot, its state not yet received. */
  readonly awaited: ReadonlySet<string>;
  /** Deleted since the last snapshot: a late answer to an earlier request must not bring it back. */
  readonly gone: ReadonlySet<string>;
  /** False until the first snapshot named the ids: "no workspaces" and "not known yet" look different. */
  readonly known: boolean;
}

export type LiveEvent =
  | { type: "snapshot"; ids: readonly string[] }
  | { type: "state"; workspace: Workspace }
  | {
      type: "progress";
      id: string;
      progress: number | null;
      operation?: string | null;
      waitingFor?: string | null;
    }
  | { type: "activity"; id: string; activity: Activity }
  | { type: "deleted"; id: string }
  | { type: "resync" };

export const EMPTY: LiveState = {
  workspaces: new Map(),
  guards: new Map(),
  awaited: new Set(),
  gone: new Set(),
  known: false,
};

export function merge(state: LiveState, event: LiveEvent): LiveState {
  switch (event.type) {
    case "snapshot":
      return applySnapshot(state, event.ids);
    case "state":
      return applyState(state, event.workspace);
    case "progress":
      return applyProgress(state, event);
    case "activity":
      return applyActivity(state, event.id, event.activity);
    case "deleted":
      return remove(state, event.id);
    case "resync":
      // What is on screen stays until the snapshot that follows: only the guards go, so that nothing blinks.
      return { ...state, guards: new Map(), gone: new Set() };
  }
}

function applySnapshot(state: LiveState, ids: readonly string[]): LiveState {
  const workspaces = new Map<string, Workspace>();
  for (const id of ids) {
    const old = state.workspaces.get(id);
    if (old) workspaces.set(id, old);
  }
  const awaited = new Set(ids.filter((id) => !workspaces.has(id)));
  return { workspaces, guards: new Map(), awaited, gone: new Set(), known: true };
}

function applyState(state: LiveState, workspace: Workspace): LiveState {
  const { id, version } = workspace;
  if (state.gone.has(id) || version < (state.guards.get(id) ?? -1)) return state;
  if (workspace.status === "deleted") return remove(state, id);
  const workspaces = new Map(state.workspaces).set(id, workspace);
  const guards = new Map(state.guards).set(id, version);
  return { ...state, workspaces, guards, awaited: without(state.awaited, id) };
}

function applyProgress(
  state: LiveState,
  event: { id: string; progress: number | null; operation?: string | null; waitingFor?: string | null },
) {
  const old = state.workspaces.get(event.id);
  // Progress of an operation that has ended, or of another one, would paint a bar that nothing moves any more.
  if (!old || old.operation === "NONE") return state;
  if (event.operation != null && event.operation !== old.operation) return state;
  const waiting_for = event.waitingFor ?? null;
  if (old.progress === event.progress && old.waiting_for === waiting_for) return state;
  return {
    ...state,
    workspaces: new Map(state.workspaces).set(event.id, { ...old, progress: event.progress, waiting_for }),
  };
}

/** Not versioned, like progress: the last one received counts. */
function applyActivity(state: LiveState, id: string, activity: Activity): LiveState {
  const old = state.workspaces.get(id);
  if (!old) return state;
  return { ...state, workspaces: new Map(state.workspaces).set(id, { ...old, activity }) };
}

function remove(state: LiveState, id: string): LiveState {
  const workspaces = new Map(state.workspaces);
  workspaces.delete(id);
  return {
    ...state,
    workspaces,
    awaited: without(state.awaited, id),
    gone: new Set(state.gone).add(id),
  };
}

function without(set: ReadonlySet<string>, id: string): ReadonlySet<string> {
  if (!set.has(id)) return set;
  const smaller = new Set(set);
  smaller.delete(id);
  return smaller;
}
