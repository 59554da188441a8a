/**
 * One event stream that heals itself. The browser's EventSource reconnects on its own, but knows neither silence
 * (a half-open connection looks alive for ever) nor back-off; this does both and reports what it is going through.
 *
 * A tab that nobody looks at gives its connection back after a while: browsers allow six connections per host over
 * HTTP/1.1, and six forgotten dashboards would otherwise freeze the seventh. Since each connection begins with a
 * snapshot, coming back needs no bookkeeping.
 */

export type Phase = "connecting" | "live" | "lost";

export interface Source {
  addEventListener(name: string, listener: (event: Event) => void): void;
  close(): void;
}

export interface ConnectionOptions {
  open: () => Source;
  names: readonly string[];
  onEvent: (name: string, data: string, lastEventId: string) => void;
  onPhase: (phase: Phase) => void;
  /** Asked after a failure, because EventSource hides the status: resolves false when trying again is pointless. */
  mayRetry?: () => Promise<boolean>;
  silenceMs?: number;
}

const FIRST_DELAY_MS = 500;
/** Two seconds after the server is back the page is to be right, and this wait is the longest part of them. Only tabs
 *  that somebody looks at keep asking. */
const LONGEST_DELAY_MS = 1_500;
const HIDDEN_TAB_GRACE_MS = 60_000;

export class Connection {
  private source: Source | null = null;
  private silence: ReturnType<typeof setTimeout> | undefined;
  private retry: ReturnType<typeof setTimeout> | undefined;
  private failures = 0;
  private heard = false;
  private closed = false;

  constructor(private readonly options: ConnectionOptions) {}

  open(): void {
    this.closed = false;
    clearTimeout(this.retry);
    if (this.source) return;
    const source = this.options.open();
    this.source = source;
    this.expectNoise();
    for (const name of this.options.names) {
      // The protocol has an event called "error", and so has EventSource: only the former carries data.
      source.addEventListener(name, (event) => {
        if (this.source === source && "data" in event) this.hear(name, event as MessageEvent<string>);
      });
    }
    source.addEventListener("error", (event) => {
      if (this.source === source && !("data" in event)) void this.fail();
    });
  }

  /** Lets go of the connection; `open` takes it up again. */
  close(): void {
    this.closed = true;
    clearTimeout(this.retry);
    this.drop();
  }

  /** Try now rather than later: the network came back, or somebody pressed the button. */
  hurry(): void {
    if (this.closed || this.source) return;
    this.failures = 0;
    this.open();
  }

  private hear(name: string, event: MessageEvent<string>): void {
    if (!this.heard || this.failures > 0) this.options.onPhase("live");
    this.heard = true;
    this.failures = 0;
    this.expectNoise();
    this.options.onEvent(name, event.data, event.lastEventId);
  }

  private expectNoise(): void {
    clearTimeout(this.silence);
    this.silence = setTimeout(() => void this.fail(), this.options.silenceMs ?? 45_000);
  }

  private async fail(): Promise<void> {
    this.drop();
    this.failures += 1;
    // One failure is a hiccup that heals before anyone could read a banner.
    if (this.failures > 1) this.options.onPhase("lost");
    if (this.options.mayRetry && !(await this.options.mayRetry())) return;
    if (this.closed) return;
    this.retry = setTimeout(() => this.open(), retryDelay(this.failures));
  }

  private drop(): void {
    clearTimeout(this.silence);
    this.source?.close();
    this.source = null;
  }
}

/** Open for as long as somebody looks at the page; returns the way to stop altogether. */
export function openWhileLookedAt(connection: Connection): () => void {
  let leaving: ReturnType<typeof setTimeout> | undefined;
  const follow = () => {
    clearTimeout(leaving);
    if (document.visibilityState === "visible") connection.open();
    else leaving = setTimeout(() => connection.close(), HIDDEN_TAB_GRACE_MS);
  };
  const hurry = () => connection.hurry();
  document.addEventListener("visibilitychange", follow);
  window.addEventListener("online", hurry);
  connection.open();
  return () => {
    document.removeEventListener("visibilitychange", follow);
    window.removeEventListener("online", hurry);
    clearTimeout(leaving);
    connection.close();
  };
}

/** Doubling with jitter: a restarted server is not greeted by every tab in the same instant. */
export function retryDelay(failures: number, random: () => number = Math.random): number {
  const longest = Math.min(LONGEST_DELAY_MS, FIRST_DELAY_MS * 2 ** (failures - 1));
  return longest * (0.5 + random() / 2);
}
