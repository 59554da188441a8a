import { expect, test } from "vitest";
import { appendLog, logText } from "./log";

test("lines come as JSON, as strings or as they are", () => {
  expect(logText('{"line":"a"}')).toBe("a");
  expect(logText('"a"')).toBe("a");
  expect(logText("a")).toBe("a");
  expect(logText("{not json")).toBe("{not json");
  expect(logText('{"level":"info"}')).toBe('{"level":"info"}');
});

test("colours of a terminal are left out", () => {
  expect(appendLog("", "\u001b[32mok\u001b[0m")).toBe("ok\n");
});

test("only what a person may scroll is kept, from the start of a line", () => {
  let text = "";
  for (let i = 0; i < 300; i += 1) text = appendLog(text, "x".repeat(999));
  expect(text.length).toBeLessThanOrEqual(200_000);
  expect(text.split("\n")[0]).toHaveLength(999);
});
