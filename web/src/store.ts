/**
 * The one way the dashboard keeps a value outside of React and hears of changes. A component reads with `useStore` and
 * renders again only when what it selected has changed; code outside of React uses `get` and `subscribe`.
 */
import { useSyncExternalStore } from "react";

type Stop = () => void;

/** Something happened: everyone who listens is told. It keeps nothing. */
export class Signal<Details extends unknown[] = []> {
  private readonly listeners = new Set<(...details: Details) => void>();

  readonly subscribe = (listener: (...details: Details) => void): Stop => {
    this.listeners.add(listener);
    return () => void this.listeners.delete(listener);
  };

  emit(...details: Details): void {
    for (const listener of this.listeners) listener(...details);
  }

  get isWatched(): boolean {
    return this.listeners.size > 0;
  }
}

interface Source {
  /** Called when the first subscriber comes; what it returns is called when the last one has left. */
  whileWatched?: () => Stop;
}

/** A value and its changes. Values are replaced, never changed in place: `Object.is` decides what is a change. */
export class Store<Value> {
  private readonly changed = new Signal();
  private stopSource: Stop | undefined;

  constructor(
    private value: Value,
    private readonly source: Source = {},
  ) {}

  readonly get = (): Value => this.value;

  readonly set = (value: Value): void => {
    if (Object.is(value, this.value)) return;
    this.value = value;
    this.changed.emit();
  };

  readonly subscribe = (listener: () => void): Stop => {
    if (!this.changed.isWatched) this.stopSource = this.source.whileWatched?.();
    // A function of its own each time: one listener may subscribe twice, and each time must count.
    const leave = this.changed.subscribe(() => listener());
    return () => {
      leave();
      if (this.changed.isWatched) return;
      this.stopSource?.();
      this.stopSource = undefined;
    };
  };
}

type Readable<Value> = Pick<Store<Value>, "get" | "subscribe">;

/** The value, or what `select` takes of it: select must give the same thing for the same value. */
export function useStore<Value>(store: Readable<Value>): Value;
export function useStore<Value, Part>(store: Readable<Value>, select: (value: Value) => Part): Part;
export function useStore(store: Readable<unknown>, select?: (value: unknown) => unknown): unknown {
  return useSyncExternalStore(store.subscribe, () => (select ? select(store.get()) : store.get()));
}
