import { describe, expect, test } from "vitest";
import { ApiError, codeOfStatus } from "../api/client";
import type { DesiredState, ErrorInfo, HistoryEntry, Operation } from "../api/types";
import { en } from "../i18n/en";
import { ko } from "../i18n/ko";
import { aWorkspace } from "../test-support";
import { learnServerTime, serverNow } from "./clock";
import { errorSentence, fieldError } from "./errors";
import { FAILURE_CODES, REASONS, SAID_BY_THE_CHANGE, TOLD_CAUSES } from "./causes";
import { causeWords, detailOf, historyLine, isWorthShowing } from "./history";
import { localPath } from "./local-path";
import { nextWords, pendingWords } from "./next";
import { bytes } from "./size";
import { duration, relativeTime } from "./time";
import { troubleWords } from "./trouble";

const NOW = Date.UTC(2026, 0, 1, 12);
const at = (seconds: number) => new Date(NOW + seconds * 1000).toISOString();

describe("durations", () => {
  test.each([
    [0, "0 s"],
    [59.9, "59 s"],
    [60, "1 min"],
    [299, "4 min"],
    [3600, "1 h"],
    [4800, "1 h 20 min"],
    [86400, "1 day"],
    [90000, "1 day 1 h"],
    [172800, "2 days"],
    [-5, "0 s"],
  ])("%d seconds are %s", (seconds, words) => expect(duration(en, seconds)).toBe(words));

  test("in Korean", () => expect(duration(ko, 4800)).toBe("1시간 20분"));
});

describe("relative time", () => {
  test.each([
    [-3, "just now"],
    [-40, "40 s ago"],
    [-300, "5 min ago"],
    [-7300, "2 h ago"],
    [-86400 * 3, "3 days ago"],
    [600, "in 10 min"],
  ])("%d seconds from now is %s", (seconds, words) => expect(relativeTime(en, at(seconds), NOW)).toBe(words));

  test("never, and never nonsense", () => {
    expect(relativeTime(en, null, NOW)).toBe("never");
    expect(relativeTime(en, "nonsense", NOW)).toBe("never");
    expect(relativeTime(ko, at(-300), NOW)).toBe("5분 전");
  });
});

describe("the server's clock", () => {
  test("a browser that is ten minutes off still counts down correctly", () => {
    learnServerTime(NOW, 200, NOW + 600_000);
    expect(serverNow(NOW + 600_000)).toBe(NOW);
  });

  test("the network's delay is not a wrong clock", () => {
    learnServerTime(NOW, 200, NOW + 800);
    expect(serverNow(NOW)).toBe(NOW);
  });

  test("a coarse source does not shake a fine one", () => {
    learnServerTime(NOW, 200, NOW + 600_000);
    learnServerTime(NOW - 900, 1000, NOW + 600_000);
    expect(serverNow(NOW + 600_000)).toBe(NOW);
  });
});

const running = { desired_state: "RUNNING", observed_status: "RUNNING", status: "running" } as const;
const idle = (to: DesiredState, seconds: number) => ({
  activity: {
    connections: 0,
    last_seen_at: null,
    kind: null,
    queue: null,
    awake: null,
    next: { to, at: at(seconds), why: "idle" },
  },
});

describe("what happens next", () => {
  const next = (change: Parameters<typeof aWorkspace>[0]) =>
    nextWords(en, aWorkspace(change), { language: "en", nowMs: NOW, attempts: 4 });

  test("waits for an IDE that is being installed, or for a node", () => {
    const starting = { ...running, operation: "STARTING", status: "starting" } as const;
    const told = (reason: string, m = en) =>
      nextWords(m, aWorkspace({ ...starting, waiting_for: reason }), {
        language: "en",
        nowMs: NOW,
        attempts: 4,
      });
    expect(told("installing VS Code 42 %")).toBe("Waiting: VS Code is being installed, 42 %");
    expect(told("installing VS Code 42 %", ko)).toContain("VS Code 설치 42 %");
    expect(told("2 Insufficient memory.")).toBe("Waiting for a node: 2 Insufficient memory.");
  });

  test("counts down to sleep and to the archive", () => {
    expect(next({ ...running, ...idle("STANDBY", 250) })).toBe("Sleeps in 4 min");
    expect(next({ ...running, ...idle("STANDBY", 30) })).toBe("Sleeps in 30 s");
    expect(next({ ...running, ...idle("STANDBY", -5) })).toBe("Sleeps any moment");
    expect(next(idle("PENDING", 7200))).toBe("Archived in 2 h");
    const sleepy = aWorkspace({ ...running, ...idle("STANDBY", 250) });
    expect(nextWords(ko, sleepy, { language: "ko", nowMs: NOW, attempts: 4 })).toBe("4분 후 잠듭니다");
  });

  test("tells those in line where they stand", () => {
    const inLine = (
      place: number,
      limit: "limit_user" | "limit_global",
      estimated_seconds: number | null,
    ) => ({
      queued_at: at(-60),
      activity: {
        ...idle("PENDING", 7200).activity,
        queue: { place, limit, since: at(-60), estimated_seconds },
      },
    });
    expect(next(inLine(2, "limit_global", 300))).toBe("Number 2 in line, about 5 min");
    expect(next(inLine(1, "limit_global", null))).toBe("Next in line");
    expect(next(inLine(1, "limit_user", 0))).toBe("In line: starts when another of yours sleeps, about 1 s");
    expect(next({ queued_at: at(-60) })).toBe("In line for a running place");
    const waiting = aWorkspace(inLine(3, "limit_global", 300));
    expect(nextWords(ko, waiting, { language: "ko", nowMs: NOW, attempts: 4 })).toBe(
      "대기 순서 3번째, 약 5분",
    );
  });

  test("says why nothing happens", () => {
    expect(next(running)).toBe("Awake while in use");
    expect(next({ ...running, standby_ttl_seconds: 0 })).toBe("Never sleeps by itself");
    const open = (seconds: number) => {
      const activity = idle("STANDBY", seconds).activity;
      return {
        ...running,
        activity: { ...activity, awake: { because: "open" as const, since: at(-2400), work: null } },
      };
    };
    expect(next(open(7200))).toBe("Open in a window, untouched for 40 min");
    expect(next(open(250))).toBe("Sleeps in 4 min");
    const working = (what: "kernel" | "job", name: string) => ({
      ...idle("STANDBY", 36_000).activity,
      awake: { because: "busy" as const, since: at(-7200), work: { what, name, until: at(36_000) } },
    });
    const busy = { ...running, activity: working("kernel", "") };
    expect(next(busy)).toBe("Kept awake: notebook busy for 2 h");
    expect(nextWords(ko, aWorkspace(busy), { language: "ko", nowMs: NOW, attempts: 4 })).toBe(
      "깨어 있음: 2시간째 노트북 실행 중",
    );
    expect(next({ ...running, activity: working("job", "make") })).toBe("Kept awake: make at work for 2 h");
    expect(next({ ...running, awake_until: at(3600) })).toContain("Kept awake until");
    expect(next({ ...running, ...idle("STANDBY", 3600), awake_until: at(3600) })).toContain(
      "Kept awake until",
    );
    expect(next({ ...running, ...idle("STANDBY", 250), awake_until: at(60) })).toBe("Sleeps in 4 min");
    expect(next({ ...running, awake_until: at(-3600) })).toBe("Awake while in use");
    expect(
      next({
        ...running,
        activity: { connections: null, last_seen_at: null, kind: null, queue: null, awake: null, next: null },
      }),
    ).toBe("");
    expect(next({ archive_ttl_seconds: 0 })).toBe("Stays asleep until opened");
    expect(next({ desired_state: "PENDING", observed_status: "PENDING", archive_key: "k" })).toContain(
      "every file",
    );
    expect(next({ desired_state: "PENDING", observed_status: "PENDING" })).toBe("Starts when opened");
  });

  test("what is wanted is told as wanted until it is observed", () => {
    expect(next({ desired_state: "RUNNING" })).toBe("Start requested");
    expect(next({ desired_state: "RUNNING", operation: "STARTING" })).toBe("");
    expect(next({ desired_state: "RUNNING", observed_status: "PENDING", operation: "RESTORING" })).toBe(
      "Starts next",
    );
    expect(pendingWords(en, aWorkspace({ ...running, desired_state: "STANDBY" }))).toBe("Stop requested");
    expect(pendingWords(en, aWorkspace(running))).toBeNull();
    expect(pendingWords(en, aWorkspace({ deleted_at: at(-1) }))).toBe("Deletion requested");
  });

  test("an error waits for a person, a retry does not", () => {
    const info = anError({ is_terminal: false, error_count: 1 });
    expect(next({ desired_state: "RUNNING", error_info: info })).toContain("attempt 2 of 4");
    const failing = aWorkspace({ error_info: { ...info, error_count: 7 } });
    const told = (attempts: number | null) =>
      nextWords(en, failing, { language: "en", nowMs: NOW, attempts });
    expect([told(9), told(3), told(null)]).toEqual([
      "Failed, trying again (attempt 8 of 9)",
      "Failed, trying again (attempt 3 of 3)",
      "Failed, trying again",
    ]);
    expect(next({ health_status: "ERROR", error_info: anError() })).toBe("Waits for a person");
  });
});

describe("errors of requests", () => {
  const problem = (code: string, extra = {}, retryAfter: number | null = null) =>
    new ApiError(code, 400, "the detail", [], extra, retryAfter);

  test.each([
    "unauthorized",
    "forbidden",
    "not_found",
    "name_taken",
    "username_taken",
    "limit_user",
    "limit_global",
    "deleted",
    "archived",
    "validation_failed",
    "too_large",
    "rate_limited",
    "conflict",
    "unavailable",
    "internal",
    "network",
    "unknown_image",
    "bad_request",
    "csrf",
    "wrong_password",
    "invalid_credentials",
    "unfit_username",
    "unfit_password",
    "last_admin",
    "not_ready",
  ])("%s has a sentence of its own in both languages", (code) => {
    for (const m of [en, ko]) {
      const sentence = errorSentence(m, new ApiError(code, 400, null));
      expect(sentence).not.toBe(m.errors.unknown);
      expect(sentence.length).toBeGreaterThan(3);
    }
  });

  test("values are told", () => {
    expect(errorSentence(en, problem("limit_user", { used: 2, allowed: 2 }))).toContain("2 of 2 workspaces");
    expect(errorSentence(en, problem("rate_limited", {}, 30))).toContain("30 s");
  });

  test("an unknown code speaks for itself, and what is no problem document is at least admitted", () => {
    expect(errorSentence(en, problem("brand_new"))).toBe("the detail");
    expect(errorSentence(en, new ApiError("brand_new", 400, null))).toBe(en.errors.unknown);
    expect(errorSentence(en, new TypeError("x"))).toBe(en.errors.unknown);
  });

  test("fields find their messages, in the person's language where the code is known", () => {
    const error = new ApiError("validation_failed", 422, null, [
      { field: "body.name", message: "at most 64 characters", code: "too_long", params: { max_length: 64 } },
      { field: "image_ref", message: "There is no vim.", code: "unknown_image", params: {} },
      { field: "memo", message: "not on Sundays", code: "not_valid", params: {} },
    ]);
    expect(fieldError(en, error, "name")).toBe("at most 64 characters");
    expect(fieldError(ko, error, "name")).toBe("64자 이하여야 합니다");
    expect(fieldError(ko, error, "image_ref")).toBe(ko.errors.unknown_image);
    expect(fieldError(ko, error, "memo")).toBe("not on Sundays");
    expect(fieldError(en, error, "description")).toBeNull();
    expect(errorSentence(ko, error)).toContain("name (64자 이하여야 합니다)");
  });

  test("a status alone still has a code", () => {
    expect(codeOfStatus(502)).toBe("unavailable");
    expect(codeOfStatus(500)).toBe("internal");
    expect(codeOfStatus(422)).toBe("validation_failed");
  });
});

function anError(change: Partial<ErrorInfo> = {}): ErrorInfo {
  return {
    reason: "ActionFailed",
    message: "",
    is_terminal: true,
    operation: "STARTING",
    error_count: 4,
    context: {},
    occurred_at: at(0),
    ...change,
  };
}

describe("errors of workspaces", () => {
  test.each(REASONS)("%s is told and advised on", (reason) => {
    for (const m of [en, ko]) {
      const { what, advice } = troubleWords(m, anError({ reason }));
      expect(what).not.toBe(m.trouble.reasons.unknown);
      expect(advice.length).toBeGreaterThan(5);
    }
  });

  test("a known cause is told instead of its reason", () => {
    expect(troubleWords(en, anError({ context: { code: "NO_SPACE" } }))).toEqual({
      what: en.trouble.codes.NO_SPACE,
      advice: en.trouble.advice.space,
      output: null,
      files: [],
      forOwner: false,
      nodeAway: false,
    });
  });

  test("used-up retries are told by what failed each time", () => {
    const info = anError({
      reason: "RetryExceeded",
      context: { last_reason: "Unreachable", code: "DOCKER_API_ERROR" },
    });
    expect(troubleWords(en, info)).toEqual({
      what: en.trouble.codes.DOCKER_API_ERROR,
      advice: en.trouble.advice.wait,
      output: null,
      files: [],
      forOwner: false,
      nodeAway: false,
    });
  });

  test("a workspace that ended by itself is told with its last words", () => {
    const info = anError({ context: { action: "start", log: ["listening", "going down"] } });
    expect(troubleWords(en, info)).toMatchObject({
      advice: en.trouble.advice.start,
      output: "listening\ngoing down",
    });
    expect(troubleWords(en, anError({ context: { output: "one\n" } })).output).toBe("one");
  });

  test("an archiving that was given up is the owner's: the files, a start and another try", () => {
    const context = { code: "HOME_NOT_ARCHIVABLE", files: ["a/locked"], next_try_at: at(3600) };
    const info = anError({ operation: "ARCHIVING", is_terminal: false, context });
    for (const m of [en, ko]) {
      expect(troubleWords(m, info)).toEqual({
        what: m.trouble.codes.HOME_NOT_ARCHIVABLE,
        advice: m.trouble.advice.mend,
        output: null,
        files: ["a/locked"],
        forOwner: true,
        nodeAway: false,
      });
    }
    expect(troubleWords(en, { ...info, reason: "DataLost", is_terminal: true }).forOwner).toBe(false);
    expect(troubleWords(en, { ...info, context: {} }).forOwner).toBe(false); // still being retried
  });

  test("a home on a node that is away is its owner's to wait for or to give up", () => {
    const found = troubleWords(en, anError({ context: { code: "HOME_NODE_UNAVAILABLE", node: "node-1" } }));
    expect(found).toMatchObject({ nodeAway: true, what: en.trouble.codes.HOME_NODE_UNAVAILABLE });
  });

  test("lost data is never answered with a retry", () => {
    expect(
      troubleWords(en, anError({ reason: "DataLost", context: { code: "ARCHIVE_NOT_FOUND" } })).advice,
    ).toBe(en.trouble.advice.data);
  });
});

describe("the timeline", () => {
  type Cause = Partial<Pick<HistoryEntry, "cause" | "cause_code" | "cause_params">>;
  const entry = (
    changes: HistoryEntry["changes"],
    cause: Cause = {},
    actor: string | null = null,
  ): HistoryEntry => ({
    seq: 2,
    version: 2,
    at: at(0),
    changes,
    cause: null,
    cause_code: null,
    cause_params: {},
    ...cause,
    actor,
  });
  const line = (...args: Parameters<typeof entry>) => historyLine(en, entry(...args));
  const wasIdle: Cause = { cause: "idle for 5 min", cause_code: "idle", cause_params: { seconds: 300 } };

  test("causes in words", () => {
    expect(line({ desired_state: ["RUNNING", "STANDBY"] }, wasIdle, "ttl")).toEqual({
      text: "Put to sleep: idle for 5 min",
      detail: null,
      tone: "desired",
      actor: "idleness",
    });
    expect(historyLine(ko, entry({ desired_state: ["RUNNING", "STANDBY"] }, wasIdle)).text).toBe(
      "재움: 5분 동안 쓰지 않음",
    );
    const forgotten: Cause = {
      cause: "not used for 1 d",
      cause_code: "forgotten",
      cause_params: { seconds: 86400 },
    };
    expect(line({ desired_state: ["STANDBY", "PENDING"] }, forgotten).text).toBe(
      "Sent to the archive: not used for 1 day",
    );
    const asked: Cause = { cause: "asked to start", cause_code: "asked_to_start" };
    expect(line({ desired_state: ["PENDING", "RUNNING"] }, asked, "user:ann")).toEqual({
      text: "Start requested",
      detail: null,
      tone: "desired",
      actor: "ann",
    });
  });

  test.each([en, ko])(
    "every cause the server writes has its words, or is said by the change ($language)",
    (m) => {
      for (const code of TOLD_CAUSES) {
        const told = entry({}, { cause: "in English", cause_code: code, cause_params: { seconds: 60 } });
        expect(causeWords(m, told)).toBeTruthy();
        expect(detailOf(told)).toBeNull();
      }
      for (const code of SAID_BY_THE_CHANGE) {
        const told = entry({}, { cause: "in English", cause_code: code });
        expect([causeWords(m, told), detailOf(told)]).toEqual([null, null]);
      }
    },
  );

  test("a failure is told in the reader's language, what the engine said is quoted", () => {
    const info = {
      reason: "ActionFailed",
      message: "no such image: x",
      is_terminal: false,
      context: { code: "IMAGE_UNKNOWN" },
    };
    const failed = entry({ error_info: [null, info] }, { cause: info.message });
    for (const m of [en, ko]) {
      const told = historyLine(m, failed);
      expect(told.text).toBe(m.history.withCause(m.history.retry, m.trouble.codes.IMAGE_UNKNOWN));
      expect(told.detail).toBe("no such image: x");
    }
    const late = { ...info, reason: "Timeout", message: "STARTING was not done in time", context: {} };
    expect(historyLine(ko, entry({ error_info: [null, late] })).detail).toBeNull();
  });

  test.each([en, ko])("every failure and every reason has its sentence ($language)", (m) => {
    for (const code of FAILURE_CODES) expect(m.trouble.codes[code]).toBeTruthy();
    for (const reason of REASONS) expect(m.trouble.reasons[reason]).toBeTruthy();
  });

  test("a cause nobody foresaw is quoted as it is", () =>
    expect(line({ memo: ["a", "b"] }, { cause: "the moon was full" })).toMatchObject({
      text: "Settings changed",
      detail: "the moon was full",
    }));

  test.each([
    [{ deleted_at: [null, at(0)] }, "Deletion requested"],
    [{ operation: ["NONE", "RESTORING"] }, "Restoring files from the archive"],
    [{ observed_status: ["STANDBY", "RUNNING"] }, "Running"],
    [{ archive_key: [null, "k"], operation: ["ARCHIVING", "ARCHIVING"] }, "Archive written and checked"],
    [{ error_info: [null, { is_terminal: true }], operation: ["STARTING", "NONE"] }, "Failed"],
    [{ error_info: [null, { is_terminal: false }] }, "Failed, will try again"],
    [{ error_info: [{ is_terminal: true }, null] }, "Error cleared"],
    [{ health_status: ["OK", "ERROR"] }, "Marked as broken"],
    [{ name: ["a", "b"] }, "Renamed from a to b"],
    [{ memo: ["", "x"] }, "Settings changed"],
    [{ awake_until: [null, at(0)] }, "Kept awake"],
    [{ something: [1, 2] }, "Changed"],
  ] as [HistoryEntry["changes"], string][])("%j is “%s”", (changes, words) =>
    expect(line(changes).text).toBe(words),
  );

  test("every operation has its words", () => {
    for (const operation of [
      "PROVISIONING",
      "RESTORING",
      "STARTING",
      "STOPPING",
      "ARCHIVING",
      "DELETING",
    ] as Operation[])
      expect(line({ operation: ["NONE", operation] }).text).toBe(en.history.operation[operation]);
  });

  test("an operation that merely ended is left out", () => {
    expect(isWorthShowing(entry({ operation: ["STARTING", "NONE"], op_id: ["x", null] }))).toBe(false);
    expect(isWorthShowing(entry({ operation: ["STARTING", "NONE"], error_info: [null, {}] }))).toBe(true);
    expect(isWorthShowing({ ...entry({}), version: 1 })).toBe(true);
  });
});

test("after signing in one only ever lands on this host", () => {
  expect(localPath("/w/abc/lab?x=1#y")).toBe("/w/abc/lab?x=1#y");
  for (const evil of [
    "//evil.example",
    "/\\evil.example",
    "\\\\evil",
    "https://evil.example",
    "javascript:alert(1)",
    "/\t/evil",
    "/a\nb",
    "evil",
    "",
    null,
  ])
    expect(localPath(evil)).toBe("/");
});

test("sizes are rounded to what one can use", () => {
  expect(bytes("en", 0)).toBe("0 bytes");
  expect(bytes("en", 1_500_000)).toBe("1.5 MB");
  expect(bytes("en", 412_000_000)).toBe("412 MB");
});
