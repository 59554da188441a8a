import { describe, expect, test } from "vitest";
import type { HistoryEntry } from "../api/types";
import { en } from "../i18n/en";
import { ko } from "../i18n/ko";
import told from "./chapters.json";
import { chapterLine, chapters } from "./chapters";

type Written = [second: number, changes: HistoryEntry["changes"], actor: string, cause: string | null];

const CODES: Record<string, [HistoryEntry["cause_code"], Record<string, number>]> = {
  "idle for 5 min": ["idle", { seconds: 300 }],
  "not used for 6 h": ["forgotten", { seconds: 21_600 }],
  "opened the link": ["link_opened", {}],
  created: ["created", {}],
  edited: ["edited", {}],
  "asked to start": ["asked_to_start", {}],
  "asked to stop": ["asked_to_stop", {}],
  "asked to archive": ["asked_to_archive", {}],
  "asked to recover": ["asked_to_recover", {}],
};

/** The entries as the API gives them: newest first, causes with their codes. */
function historyOf(written: Written[]): HistoryEntry[] {
  return written
    .map(([second, changes, actor, cause], i): HistoryEntry => {
      const [cause_code, cause_params] = CODES[cause ?? ""] ?? [null, {}];
      return {
        seq: i + 1,
        version: cause === "created" ? 1 : i + 2,
        at: new Date(Date.UTC(2026, 0, 1) + second * 1000).toISOString(),
        changes,
        actor,
        cause,
        cause_code,
        cause_params,
      };
    })
    .reverse();
}

describe.each(told.cases)("$name", ({ history, ...words }) => {
  const sizes = new Map([[told.key, told.bytes]]);
  const found = chapters(historyOf(history as unknown as Written[]));

  test.each([
    ["en", en],
    ["ko", ko],
  ] as const)("in %s", (language, m) =>
    expect(found.map((each) => chapterLine(m, language, each, sizes).text)).toEqual(words[language]),
  );
});

test("who asked is named, and CodeHub itself is not", () => {
  const [stop] = chapters(
    historyOf([[0, { desired_state: ["RUNNING", "STANDBY"] }, "user:ann", "asked to stop"]]),
  );
  expect(chapterLine(en, "en", stop!, new Map()).actor).toBe("ann");
  const [sleep] = chapters(
    historyOf([[0, { desired_state: ["RUNNING", "STANDBY"] }, "ttl", "idle for 5 min"]]),
  );
  expect(chapterLine(en, "en", sleep!, new Map()).actor).toBeNull();
});
