import { expect, test } from "vitest";
import { appendLog, logText } from "./log";

test("pieces of output are JSON with a text; anything else says nothing", () => {
  expect(logText('{"text":"a\\nb"}')).toBe("a\nb");
  expect(logText('{"level":"info"}')).toBe("");
  expect(logText("not json")).toBe("");
});

test("a line that was cut in two grows together again", () => {
  expect(appendLog(appendLog("", "hel"), "lo\n")).toBe("hello\n");
});

test("colours of a terminal are left out", () => {
  expect(appendLog("", "\u001b[32mok\u001b[0m")).toBe("ok");
});

test("only what a person may scroll is kept, from the start of a line", () => {
  let text = "";
  for (let i = 0; i < 300; i += 1) text = appendLog(text, `${"x".repeat(999)}\n`);
  expect(text.length).toBeLessThanOrEqual(200_000);
  expect(text.split("\n")[0]).toHaveLength(999);
});
