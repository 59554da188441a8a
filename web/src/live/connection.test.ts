import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Connection, retryDelay, type Phase, type Source } from "./connection";

class FakeSource implements Source {
  closed = false;
  private readonly listeners: [string, (event: Event) => void][] = [];

  addEventListener(name: string, listener: (event: Event) => void) {
    this.listeners.push([name, listener]);
  }

  close() {
    this.closed = true;
  }

  say(name: string, data?: string) {
    const event = data === undefined ? {} : { data, lastEventId: "" };
    for (const [heard, listener] of this.listeners) if (heard === name) listener(event as Event);
  }
}

function connect(mayRetry?: () => Promise<boolean>) {
  const sources: FakeSource[] = [];
  const phases: Phase[] = [];
  const events: string[] = [];
  const connection = new Connection({
    open: () => sources[sources.push(new FakeSource()) - 1]!,
    names: ["snapshot", "error", "heartbeat"],
    onEvent: (name) => events.push(name),
    onPhase: (phase) => phases.push(phase),
    ...(mayRetry && { mayRetry }),
  });
  connection.open();
  return { connection, sources, phases, events, latest: () => sources.at(-1)! };
}

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test("is live once something was heard", () => {
  const c = connect();
  c.latest().say("snapshot", "{}");
  expect(c.phases).toEqual(["live"]);
  expect(c.events).toEqual(["snapshot"]);
});

test("the protocol's error event is an event, the browser's is a failure", async () => {
  const c = connect();
  c.latest().say("error", "{}");
  expect(c.events).toEqual(["error"]);
  expect(c.latest().closed).toBe(false);
  c.latest().say("error");
  expect(c.sources[0]!.closed).toBe(true);
  await vi.advanceTimersByTimeAsync(1000);
  expect(c.sources).toHaveLength(2);
});

test("silence for 45 s is a failure; a heartbeat is not silence", async () => {
  const c = connect();
  await vi.advanceTimersByTimeAsync(30_000);
  c.latest().say("heartbeat", "{}");
  await vi.advanceTimersByTimeAsync(44_000);
  expect(c.sources).toHaveLength(1);
  await vi.advanceTimersByTimeAsync(2_000);
  expect(c.sources).toHaveLength(2);
});

test("a hiccup is not announced, an outage is, and it heals", async () => {
  const c = connect();
  c.latest().say("snapshot", "{}");
  c.latest().say("error");
  expect(c.phases).toEqual(["live"]);
  await vi.advanceTimersByTimeAsync(1000);
  c.latest().say("error");
  expect(c.phases).toEqual(["live", "lost"]);
  await vi.advanceTimersByTimeAsync(2000);
  c.latest().say("snapshot", "{}");
  expect(c.phases).toEqual(["live", "lost", "live"]);
});

test("does not come back when it was closed, nor when the session has ended", async () => {
  const closed = connect();
  closed.latest().say("error");
  closed.connection.close();
  const ended = connect(() => Promise.resolve(false));
  ended.latest().say("error");
  await vi.advanceTimersByTimeAsync(60_000);
  expect(closed.sources).toHaveLength(1);
  expect(ended.sources).toHaveLength(1);
});

test("a connection that was given up says nothing more", async () => {
  const c = connect();
  const old = c.latest();
  old.say("error");
  await vi.advanceTimersByTimeAsync(1000);
  old.say("snapshot", "{}");
  expect(c.events).toEqual([]);
});

test("waits longer each time, up to a limit, never all at once", () => {
  const longest = [1, 2, 3, 4, 5, 6, 7].map((n) => retryDelay(n, () => 1));
  expect(longest).toEqual([500, 1000, 1500, 1500, 1500, 1500, 1500]);
  expect(retryDelay(1, () => 0)).toBe(250);
});
