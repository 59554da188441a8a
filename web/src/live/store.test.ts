import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { aWorkspace } from "../test-support";
import type { Source } from "./connection";
import { LiveStore } from "./store";

class Spoken extends EventTarget {
  close(): void {}
}

function aStore() {
  const source = new Spoken();
  const store = new LiveStore(
    "/events",
    async () => true,
    () => source as unknown as Source,
  );
  const stop = store.start();
  const say = (name: string, data: unknown, lastEventId = "") =>
    source.dispatchEvent(new MessageEvent(name, { data: JSON.stringify(data), lastEventId }));
  let drawn = 0;
  store.subscribe(() => (drawn += 1));
  return { store, stop, say, drawn: () => drawn };
}

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test("a long list that arrives one by one is drawn a few times, and whole", () => {
  const { store, say, drawn, stop } = aStore();
  const ids = Array.from({ length: 500 }, (_, i) => `ws-${i}`);
  say("snapshot", { ids });
  const before = drawn();
  for (const id of ids) say("state_changed", aWorkspace({ id, name: id }), `${id}:1`);
  expect(drawn() - before).toBe(1);
  expect(store.get().workspaces.size).toBe(500);
  stop();
});

test("a list that stops half-way shows what has come, and loses nothing that was asked meanwhile", () => {
  const { store, say, stop } = aStore();
  say("snapshot", { ids: ["a", "b", "c"] });
  say("state_changed", aWorkspace({ id: "a" }), "a:1");
  store.ask("a", "start");
  say("state_changed", aWorkspace({ id: "b" }), "b:1");
  vi.advanceTimersByTime(1000);
  expect([...store.get().workspaces.keys()]).toEqual(["a", "b"]);
  expect(store.get().asking.get("a")).toBe("start");
  stop();
});
