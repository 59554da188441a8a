import { expect, test } from "vitest";
import { aWorkspace } from "../test-support";
import { decode, heartbeatTime } from "./wire";

const ws = aWorkspace({ id: "a", version: 3 });

test("state_changed and error carry the whole workspace", () => {
  for (const name of ["state_changed", "error"] as const)
    expect(decode(name, JSON.stringify(ws), "a:3")).toEqual({ type: "state", workspace: ws });
});

test("a snapshot names ids", () => {
  expect(decode("snapshot", '{"ids":["a","b"]}', "")).toEqual({ type: "snapshot", ids: ["a", "b"] });
});

test("progress comes as the id, the operation and a percentage", () => {
  expect(decode("progress", '{"id":"a","progress":12,"operation":"RESTORING","bytes":5}', "")).toEqual({
    type: "progress",
    id: "a",
    progress: 12,
    waitingFor: null,
    operation: "RESTORING",
  });
});

test("deleted is understood by its data or by its id", () => {
  expect(decode("deleted", '{"id":"a"}', "")).toEqual({ type: "deleted", id: "a" });
  expect(decode("deleted", "{}", "a:9")).toEqual({ type: "deleted", id: "a" });
});

test("what makes no sense is dropped", () => {
  expect(decode("state_changed", "not json", "")).toBeNull();
  expect(decode("state_changed", '{"id":"a"}', "")).toBeNull();
  expect(decode("snapshot", "{}", "")).toBeNull();
  expect(decode("progress", "[]", "")).toBeNull();
});

test("a heartbeat tells the server's time", () => {
  expect(heartbeatTime('{"at":"2026-01-01T00:00:00Z"}')).toBe(Date.UTC(2026, 0, 1));
  expect(heartbeatTime("{}")).toBeNull();
});
