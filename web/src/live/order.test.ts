import { expect, test } from "vitest";
import type { Workspace } from "../api/types";
import { aWorkspace } from "../test-support";
import { asBefore, inOrder } from "./order";

const ws = (name: string, change: Partial<Workspace> = {}) =>
  aWorkspace({ id: `id-${name}`, name, ...change });
const names = (workspaces: Workspace[]) => workspaces.map((each) => each.name);
const used = (at: string) => ({ last_access_at: `2026-01-${at}T00:00:00Z` });

test("trouble first, then what runs or is about to, then what was used last, then what is leaving", () => {
  const listed = inOrder(
    [
      ws("long ago", used("01")),
      ws("leaving", { status: "deleting", ...used("09") }),
      ws("yesterday", { status: "archived", ...used("08") }),
      ws("starts", { status: "starting" }),
      ws("runs", { status: "running" }),
      ws("broken", { status: "error" }),
      ws("going to sleep", { status: "stopping", ...used("09") }),
    ],
    "en",
  );
  expect(names(listed)).toEqual([
    "broken",
    "runs",
    "starts",
    "going to sleep",
    "yesterday",
    "long ago",
    "leaving",
  ]);
});

test("names as people count", () => {
  const listed = inOrder(
    ["run 10", "Run 9", "run 2", "alpha"].map((name) => ws(name, { status: "running" })),
    "en",
  );
  expect(names(listed)).toEqual(["alpha", "run 2", "Run 9", "run 10"]);
});

test("what was seen a moment ago counts, not only what was written down", () => {
  const seen = (at: string | null) => ({
    connections: 0,
    last_seen_at: at,
    kind: null,
    queue: null,
    awake: null,
    next: null,
  });
  const fresh = ws("fresh", { ...used("01"), activity: seen("2026-01-09T00:00:00Z") });
  expect(names(inOrder([ws("older", used("08")), fresh], "en"))).toEqual(["fresh", "older"]);
});

test("the same names keep one order, whatever arrives first", () => {
  const twins = [aWorkspace({ id: "b", name: "x" }), aWorkspace({ id: "a", name: "x" })];
  expect(inOrder(twins, "en").map((each) => each.id)).toEqual(["a", "b"]);
  expect(inOrder(twins.toReversed(), "en").map((each) => each.id)).toEqual(["a", "b"]);
});

test("while it is held, an order stays, what is new comes first and what is gone is gone", () => {
  const sorted = [ws("runs", { status: "running" }), ws("new"), ws("old")];
  expect(names(asBefore(sorted, ["id-old", "id-gone", "id-runs"]))).toEqual(["new", "old", "runs"]);
});
