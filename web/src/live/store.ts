/**
 * The list of workspaces as one object the pages subscribe to. Events and answers to requests meet here and pass the
 * same version guard, so it does not matter which of the two arrives first. Whatever did not change stays the same
 * object, so a component that selects one workspace renders again for that workspace only.
 *
 * A request under way (`asking`) is kept here too, beside the workspace and never inside it: what was asked for is
 * shown as asked for, and only the server changes what is.
 */
import type { Workspace } from "../api/types";
import { Signal, Store } from "../store";
import { learnServerTime } from "../words/clock";
import { Connection, openWhileLookedAt, type Phase, type Source } from "./connection";
import { EMPTY, merge, type LiveEvent, type LiveState } from "./merge";
import { decode, EVENT_NAMES, heartbeatTime, type EventName } from "./wire";

export type ActionName =
  | "start"
  | "stop"
  | "archive"
  | "delete"
  | "recover"
  | "keep-awake"
  | "return-to-archive"
  | "restore"
  | "snapshots";

export interface LiveView extends LiveState {
  readonly phase: Phase;
  readonly asking: ReadonlyMap<string, ActionName>;
  /** Raised by every change of state (not by progress or activity): what queries about history and limits depend on. */
  readonly changes: number;
}

/** How often a list that is being filled is drawn. */
const FILLING_MS = 200;

export class LiveStore {
  /** Each workspace that changed, before and after: for announcements. */
  readonly transitions = new Signal<[before: Workspace | undefined, after: Workspace | undefined]>();
  private readonly view = new Store<LiveView>({
    ...EMPTY,
    phase: "connecting",
    asking: new Map(),
    changes: 0,
  });
  /** What is known; the view lags behind it for a moment while a long list arrives. */
  private newest = this.view.get();
  private publishing: ReturnType<typeof setTimeout> | undefined;
  private readonly connection: Connection;

  constructor(url: string, mayRetry: () => Promise<boolean>, open?: () => Source) {
    this.connection = new Connection({
      open: open ?? (() => new EventSource(url)),
      names: EVENT_NAMES,
      onEvent: (name, data, id) => this.receive(name as EventName, data, id),
      onPhase: (phase) => this.publish({ ...this.newest, phase }),
      mayRetry,
    });
  }

  readonly subscribe = this.view.subscribe;
  readonly get = this.view.get;

  /** Begin listening; returns the way to stop. */
  start(): () => void {
    return openWhileLookedAt(this.connection);
  }

  readonly retryNow = (): void => this.connection.hurry();

  /** The answer to a request passes the same guard as an event. */
  readonly observe = (workspace: Workspace): void => this.apply({ type: "state", workspace });

  /** Apply a change that cannot mislead (a name, a note) before the server confirms it; returns the undo. */
  assume(id: string, change: Partial<Workspace>): () => void {
    const before = this.newest.workspaces.get(id);
    if (!before) return () => undefined;
    this.replace({ ...before, ...change });
    return () => {
      const now = this.newest.workspaces.get(id);
      // Only if nothing newer came meanwhile: then that is the truth already.
      if (now && now.version === before.version) this.replace(before);
    };
  }

  /** Show that an action was asked for and not yet answered; null: it was. */
  ask(id: string, action: ActionName | null): void {
    const asking = new Map(this.newest.asking);
    if (action) asking.set(id, action);
    else asking.delete(id);
    this.publish({ ...this.newest, asking });
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
    const before = this.newest;
    const merged = merge(before, event);
    if (merged === before) return;
    const changes = before.changes + (event.type === "progress" || event.type === "activity" ? 0 : 1);
    const view = { ...merged, phase: before.phase, asking: before.asking, changes };
    // A list of hundreds arrives one by one: drawn each time, the first sight of it would take seconds.
    if (event.type === "state" && before.awaited.has(event.workspace.id)) this.publishSoon(view);
    else this.publish(view);
    if (event.type !== "state" && event.type !== "deleted") return;
    const id = event.type === "state" ? event.workspace.id : event.id;
    this.transitions.emit(before.workspaces.get(id), merged.workspaces.get(id));
  }

  private replace(workspace: Workspace): void {
    const view = this.newest;
    this.publish({ ...view, workspaces: new Map(view.workspaces).set(workspace.id, workspace) });
  }

  private publish(view: LiveView): void {
    clearTimeout(this.publishing);
    this.publishing = undefined;
    this.newest = view;
    this.view.set(view);
  }

  /** At once if nothing more is awaited, otherwise with what else comes in the next moment. */
  private publishSoon(view: LiveView): void {
    if (view.awaited.size === 0) return this.publish(view);
    this.newest = view;
    this.publishing ??= setTimeout(() => this.publish(this.newest), FILLING_MS);
  }
}
