import { expect, test } from "vitest";
import type { CoordinatorHealth, Overview } from "../api/types";
import { leaderRows, rivalHolders } from "./leaders";

const at = "2026-11-17T12:00:00Z";

function overview(...leaders: [name: string, holder: string][]): Overview {
  return {
    counts: {},
    archive_bytes: 0,
    leaders: leaders.map(([name, holder_id]) => ({
      name,
      holder_id,
      acquired_at: at,
      epoch: 1,
      last_tick_at: at,
    })),
  };
}

function health(holder_id: string, ...rivals: [lock_name: string, holder_id: string][]): CoordinatorHealth {
  const wc = {
    is_leader: true,
    holder_id,
    acquired_at: at,
    epoch: 1,
    last_tick_at: at,
    last_error: null,
    away: {},
    rivals: rivals.map(([lock_name, rival]) => ({ lock_name, holder_id: rival })),
  };
  return { node_id: holder_id, uptime_seconds: 1, is_leader: true, coordinators: { wc } };
}

const both = overview(["blue:coordinator:wc", "two"], ["coordinator:wc", "one"]);
const told = (rows: ReturnType<typeof leaderRows>) =>
  rows.map((row) => [row.name, row.holder, row.here, row.rivalLockId]);

test("one leader is one row, with a lock id or without", () => {
  expect(told(leaderRows(overview(["coordinator:wc", "one"]), health("one")))).toEqual([
    ["wc", "one", true, null],
  ]);
  expect(told(leaderRows(overview(["blue:coordinator:wc", "two"]), health("two")))).toEqual([
    ["wc", "two", true, null],
  ]);
  expect(rivalHolders(health("one"))).toEqual([]);
});

test("a leader under another lock id has a row of its own below ours, whichever of them answers", () => {
  expect(told(leaderRows(both, health("one", ["blue:coordinator:wc", "two"])))).toEqual([
    ["wc", "one", true, null],
    ["wc", "two", false, "blue"],
  ]);
  expect(told(leaderRows(both, health("two", ["coordinator:wc", "one"])))).toEqual([
    ["wc", "two", true, null],
    ["wc", "one", false, ""],
  ]);
  expect(rivalHolders(health("one", ["blue:coordinator:wc", "two"], ["red:coordinator:wc", "two"]))).toEqual([
    "two",
  ]);
});

test("nobody leads, and nothing is known yet", () => {
  expect(told(leaderRows(overview(), { ...health("one"), coordinators: {} }))).toEqual([]);
  expect(told(leaderRows(overview(["coordinator:wc", "one"]), undefined))).toEqual([
    ["wc", "one", false, null],
  ]);
});
