import { describe, expect, test } from "vitest";
import { aWorkspace } from "../test-support";
import { EMPTY, merge, type LiveEvent, type LiveState } from "./merge";

const told = (...events: LiveEvent[]): LiveState => events.reduce(merge, EMPTY);
const snapshot = (...ids: string[]): LiveEvent => ({ type: "snapshot", ids });
const state = (id: string, version: number, change = {}): LiveEvent => ({
  type: "state",
  workspace: aWorkspace({ id, version, name: `v${version}`, ...change }),
});
const nameOf = (s: LiveState, id: string) => s.workspaces.get(id)?.name;

describe("the order of versions", () => {
  test("a newer version replaces an older one", () => {
    expect(nameOf(told(snapshot("a"), state("a", 1), state("a", 2)), "a")).toBe("v2");
  });

  test("an older version is ignored", () => {
    expect(nameOf(told(snapshot("a"), state("a", 5), state("a", 4)), "a")).toBe("v5");
  });

  test("the same version is taken again, because activity is not versioned", () => {
    const after = told(snapshot("a"), state("a", 5), state("a", 5, { progress: 7 }));
    expect(after.workspaces.get("a")?.progress).toBe(7);
  });

  test("every order of three changes ends in the newest", () => {
    for (const [x, y, z] of [
      [1, 2, 3],
      [1, 3, 2],
      [2, 1, 3],
      [2, 3, 1],
      [3, 1, 2],
      [3, 2, 1],
    ] as const)
      expect(nameOf(told(snapshot("a"), state("a", x), state("a", y), state("a", z)), "a")).toBe("v3");
  });
});

describe("a snapshot", () => {
  test("drops what it does not name: a missed delete leaves no ghost", () => {
    const after = told(snapshot("a", "b"), state("a", 1), state("b", 1), snapshot("b"));
    expect([...after.workspaces.keys()]).toEqual(["b"]);
  });

  test("keeps what it names on the screen until it is told anew", () => {
    const after = told(snapshot("a"), state("a", 3), snapshot("a"));
    expect(nameOf(after, "a")).toBe("v3");
    expect(after.awaited.size).toBe(0);
  });

  test("names what is still to come", () => {
    const before = told(snapshot("a", "b"), state("a", 1));
    expect([...before.awaited]).toEqual(["b"]);
    expect(merge(before, state("b", 1)).awaited.size).toBe(0);
  });

  test("lowers the guard: a database restored from a backup counts from lower numbers", () => {
    expect(nameOf(told(snapshot("a"), state("a", 9), snapshot("a"), state("a", 2)), "a")).toBe("v2");
  });

  test("tells an empty list from one that is not known yet", () => {
    expect(EMPTY.known).toBe(false);
    expect(told(snapshot()).known).toBe(true);
  });
});

describe("resync", () => {
  test("forgets versions but does not blink", () => {
    const after = told(snapshot("a"), state("a", 9), { type: "resync" });
    expect(nameOf(after, "a")).toBe("v9");
    expect(nameOf(merge(after, state("a", 2)), "a")).toBe("v2");
  });
});

describe("progress", () => {
  const busy = { operation: "RESTORING", op_id: "op-1" };

  test("moves the bar of the running operation", () => {
    const after = told(snapshot("a"), state("a", 1, busy), { type: "progress", id: "a", progress: 40 });
    expect(after.workspaces.get("a")?.progress).toBe(40);
  });

  test("does not raise the version", () => {
    const after = told(
      snapshot("a"),
      state("a", 1, busy),
      { type: "progress", id: "a", progress: 40 },
      state("a", 1, busy),
    );
    expect(after.workspaces.get("a")?.version).toBe(1);
  });

  test("is ignored when nothing runs, for another operation and for a stranger", () => {
    const idle = told(snapshot("a"), state("a", 1));
    expect(merge(idle, { type: "progress", id: "a", progress: 40 })).toBe(idle);
    const running = told(snapshot("a"), state("a", 1, busy));
    expect(merge(running, { type: "progress", id: "a", progress: 40, operation: "ARCHIVING" })).toBe(running);
    expect(merge(running, { type: "progress", id: "z", progress: 40 })).toBe(running);
  });
});

describe("activity", () => {
  const activity = {
    connections: 2,
    last_seen_at: null,
    kind: "websocket",
    queue: null,
    awake: null,
    next: null,
  };

  test("replaces what was known of it and nothing else", () => {
    const after = told(snapshot("a"), state("a", 3), { type: "activity", id: "a", activity });
    expect(after.workspaces.get("a")).toMatchObject({ activity, version: 3, name: "v3" });
  });

  test("of a stranger is ignored", () => {
    const before = told(snapshot("a"), state("a", 1));
    expect(merge(before, { type: "activity", id: "z", activity })).toBe(before);
  });
});

describe("deletion", () => {
  test("removes, and a late answer does not bring it back", () => {
    const after = told(snapshot("a"), state("a", 1), { type: "deleted", id: "a" }, state("a", 7));
    expect(after.workspaces.size).toBe(0);
    expect(after.gone.has("a")).toBe(true);
  });

  test("is also understood from the status alone", () => {
    expect(told(snapshot("a"), state("a", 1), state("a", 2, { status: "deleted" })).workspaces.size).toBe(0);
  });
});

test("a workspace made in this very moment may appear before any event names it", () => {
  expect(nameOf(told(snapshot(), state("new", 1)), "new")).toBe("v1");
});
