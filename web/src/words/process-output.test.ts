import { expect, test } from "vitest";
import { outputOf } from "./process-output";

const event = (name: string, data: object) => `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`;
const base64 = (...bytes: number[]) => ({ data: btoa(String.fromCharCode(...bytes)) });

test("both outputs, with characters that two pieces share", () => {
  const said =
    "retry: 1000\n\n" +
    event("stdout", base64(0xed, 0x95)) +
    event("stdout", base64(0x9c, 10)) +
    event("stderr", { data: btoa("oops\n") }) +
    event("running", {});
  expect(outputOf(said)).toBe("한\noops\n");
  expect(outputOf("")).toBe("");
});
