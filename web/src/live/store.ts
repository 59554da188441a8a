/**
 * The list of workspaces as one object the pages subscribe to. Events and answers to requests meet here and pass the
 * same version guard, so it does not matter which of the two arrives first.
 *
 * A wish on its way (`asking`) lives here too, beside the workspace and never inside it: what was asked for is shown
 * as asked for, and only the server's word changes what is.
 */
import type { Workspace } from "../api/types";
import { learnServerTime } from "../words/clock";
import { Connection, openWhileLookedAt, type Phase, type Source } from "./connection";
import { EMPTY, merge, type LiveEvent, type LiveState } from "./merge";
import { decode, EVENT_NAMES, heartbeatTime, type EventName } from "./wire";

export type Wish = "start" | "stop" | "archive" | "delete" | "recover" | "keep-awake";

export interface LiveView extends LiveState {
  readonly phase: Phase;
  readonly asking: ReadonlyMap<string, Wish>;
  /** Raised by every change of state (not by progress or activity): what queries about history and limits depend on. */
  readonly changes: number;
}

type Transition = (before: Workspace | undefined, after: Workspace | undefined) => void;

export class LiveStore {
  private view: LiveView = { ...EMPTY, phase: "connecting", asking: new Map(), changes: 0 };
  private readonly listeners = new Set<() => void>();
  private readonly transitions = new Set<Transition>();
  private readonly connection: Connection;

  constructor(url: string, mayRetry: () => Promise<boolean>, open?: () => Source) {
    this.connection = new Connection({
      open: open ?? (() => new EventSource(url)),
      names: EVENT_NAMES,
      onEvent: (name, data, id) => this.receive(name as EventName, data, id),
      onPhase: (phase) => this.set({ ...this.view, phase }),
      mayRetry,
    });
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => void this.listeners.delete(listener);
  };

  readonly get = (): LiveView => this.view;

  /** Hear of each workspace that changed, for announcements and for queries that depend on it. */
  onTransition(listener: Transition): () => void {
    this.transitions.add(listener);
    return () => void this.transitions.delete(listener);
  }

  /** Begin listening; returns the way to stop. */
  start(): () => void {
    return openWhileLookedAt(this.connection);
  }

  readonly retryNow = (): void => this.connection.hurry();

  /** The answer of a request: news like any other. */
  readonly observe = (workspace: Workspace): void => this.apply({ type: "state", workspace });

  /** Apply a change that cannot mislead (a name, a note) before the server confirms it; returns the undo. */
  assume(id: string, change: Partial<Workspace>): () => void {
    const before = this.view.workspaces.get(id);
    if (!before) return () => undefined;
    this.replace({ ...before, ...change });
    return () => {
      const now = this.view.workspaces.get(id);
      // Only if nothing newer came meanwhile: then that is the truth already.
      if (now && now.version === before.version) this.replace(before);
    };
  }

  ask(id: string, wish: Wish | null): void {
    const asking = new Map(this.view.asking);
    if (wish) asking.set(id, wish);
    else asking.delete(id);
    this.set({ ...this.view, asking });
  }

  private receive(name: EventName, data: string, id: string): void {
    if (name === "heartbeat") {
      const time = heartbeatTime(data);
      if (time !== null) learnServerTime(time, 200);
      return;
    }
    const event = decode(name, data, id);
    if (event) this.apply(event);
  }

  private apply(event: LiveEvent): void {
    const before = this.view;
    const merged = merge(before, event);
    if (merged === before) return;
    const changes = before.changes + (event.type === "progress" || event.type === "activity" ? 0 : 1);
    this.set({ ...merged, phase: before.phase, asking: before.asking, changes });
    if (event.type !== "state" && event.type !== "deleted") return;
    const id = event.type === "state" ? event.workspace.id : event.id;
    for (const listener of this.transitions) listener(before.workspaces.get(id), merged.workspaces.get(id));
  }

  private replace(workspace: Workspace): void {
    this.set({ ...this.view, workspaces: new Map(this.view.workspaces).set(workspace.id, workspace) });
  }

  private set(view: LiveView): void {
    this.view = view;
    for (const listener of this.listeners) listener();
  }
}
