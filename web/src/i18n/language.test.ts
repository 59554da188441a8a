import { afterEach, beforeEach, expect, test, vi } from "vitest";

/** The module anew, as a page that is loaded with this language chosen has it. */
async function pageWith(language: string) {
  vi.resetModules();
  document.documentElement.lang = language;
  return import(".");
}

beforeEach(() => localStorage.clear());
afterEach(() => void vi.doUnmock("./ko"));

test("the chosen language is spoken from the first render on", async () => {
  const i18n = await pageWith("ko");
  await i18n.speakChosen();
  expect(i18n.messages().app.cancel).toBe("취소");
  expect(document.documentElement.lang).toBe("ko");
});

test("a switch is remembered", async () => {
  const i18n = await pageWith("en");
  await i18n.setLanguage("ko");
  expect(i18n.messages().app.cancel).toBe("취소");
  expect(localStorage.getItem("codehub.language")).toBe("ko");
  expect(document.documentElement.lang).toBe("ko");
});

test("who changes their mind while a language is fetched gets what they asked for last", async () => {
  const i18n = await pageWith("en");
  const first = i18n.setLanguage("ko");
  await i18n.setLanguage("en");
  await first;
  expect(i18n.messages().app.cancel).toBe("Cancel");
  expect(document.documentElement.lang).toBe("en");
});

test("a language that cannot be fetched changes nothing and is not remembered", async () => {
  vi.doMock("./ko", () => {
    throw new Error("offline");
  });
  const i18n = await pageWith("en");
  await expect(i18n.setLanguage("ko")).rejects.toThrow();
  expect(i18n.messages().app.cancel).toBe("Cancel");
  expect(document.documentElement.lang).toBe("en");
  expect(localStorage.getItem("codehub.language")).toBeNull();
});

test("without its language a page speaks English and says so to screen readers, too", async () => {
  vi.doMock("./ko", () => {
    throw new Error("offline");
  });
  const i18n = await pageWith("ko");
  await expect(i18n.speakChosen()).rejects.toThrow();
  expect(i18n.messages().app.cancel).toBe("Cancel");
  expect(document.documentElement.lang).toBe("en");
});
