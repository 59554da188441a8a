import { expect, test } from "vitest";
import type { CoordinatorHealth } from "../api/types";
import { enginesAway } from "./engines";

const leader: CoordinatorHealth["coordinators"][string] = {
  is_leader: true,
  holder_id: "one",
  acquired_at: null,
  epoch: 1,
  last_tick_at: null,
  last_error: null,
  away: {},
  rivals: [],
};

function health(away: Record<string, unknown>): CoordinatorHealth {
  return {
    node_id: "one",
    uptime_seconds: 1,
    is_leader: true,
    coordinators: { wc: { ...leader, away }, gc: leader },
  };
}

test("nothing is said while all is well, or unknown", () => {
  expect(enginesAway(undefined)).toEqual([]);
  expect(enginesAway(health({}))).toEqual([]);
});

test("each engine that cannot be used is named once, with what it said", () => {
  expect(enginesAway(health({ archives: "403 Forbidden" }))).toEqual([["archives", "403 Forbidden"]]);
});
