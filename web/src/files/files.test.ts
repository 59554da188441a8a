import { expect, test } from "vitest";
import type { FileEntry } from "../api/types";
import { arranged, PICTURE_BYTES, pictureType, TEXT_BYTES, textOf } from "./listing";
import { addressOf, crumbs, downloadAddress, nameProblem, parentOf, placeOf, shownName, tidy } from "./paths";
import { previewOf } from "./preview";

const entry = (name: string, type: FileEntry["type"] = "file"): FileEntry => ({
  name,
  type,
  size: 1,
  mode: "0644",
  modified_at: "2026-01-01T00:00:00Z",
  target: null,
});

test.each([
  ["", ""],
  ["a/b", "a/b"],
  ["/a//b/./c/", "a/b/c"],
  ["a/../../..", ""],
  ["../../etc/passwd", "etc/passwd"],
])("the path %j of an address is %j below the home", (asked, path) => {
  expect(tidy(asked)).toBe(path);
});

test("places survive the address, whatever they are called", () => {
  for (const path of ["", "a b", "100%/#?&=+", "한국어/파일.txt", "<script>", "a\nb"])
    for (const kind of ["folder", "file"] as const) {
      if (kind === "file" && path === "") continue;
      const { search } = new URL(addressOf("id", { kind, path }), "http://codehub.test");
      expect(placeOf(new URLSearchParams(search))).toEqual({ kind, path });
    }
});

test("a download asks for exactly this path", () => {
  const address = new URL(downloadAddress("id", "a&path=b/c d", "folder"), "http://codehub.test");
  expect(address.pathname).toBe("/api/v1/workspaces/id/files/archive");
  expect(address.searchParams.getAll("path")).toEqual(["a&path=b/c d"]);
});

test("the way from the home", () => {
  expect(crumbs("")).toEqual([]);
  expect(crumbs("a/b")).toEqual([
    { name: "a", path: "a" },
    { name: "b", path: "a/b" },
  ]);
  expect(parentOf("a/b")).toBe("a");
  expect(parentOf("a")).toBe("");
});

test("names", () => {
  expect(["", "a/b", "..", "ㄱ".repeat(86), "a", ".profile"].map(nameProblem)).toEqual([
    "empty",
    "slash",
    "dots",
    "long",
    null,
    null,
  ]);
});

test("a name cannot look like another one", () => {
  expect(shownName("photo\u202egnp.exe")).toBe("photo\ufffdgnp.exe");
  expect(shownName("two\nlines\u0007")).toBe("two\ufffdlines\ufffd");
  expect(shownName("한국어 파일 (1).txt")).toBe("한국어 파일 (1).txt");
});

test("folders first, then as people count, hidden ones when asked for", () => {
  const entries = [
    entry("file10"),
    entry("File2"),
    entry(".hidden"),
    entry("b", "directory"),
    entry("A", "directory"),
  ];
  const names = (hidden: boolean) => arranged(entries, "en", hidden).map((each) => each.name);
  expect(names(false)).toEqual(["A", "b", "File2", "file10"]);
  expect(names(true)).toEqual(["A", "b", ".hidden", "File2", "file10"]);
  expect(entries[0]?.name).toBe("file10"); // the list itself stays
});

const ascii = (text: string) => new TextEncoder().encode(text);
const PNG = new Uint8Array([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0, 0]);

test("pictures are known by their bytes, and documents with scripts are none", () => {
  expect(pictureType(PNG)).toBe("image/png");
  expect(pictureType(new Uint8Array([0xff, 0xd8, 0xff, 0xe0]))).toBe("image/jpeg");
  expect(pictureType(ascii("GIF89a"))).toBe("image/gif");
  expect(pictureType(ascii("RIFF1234WEBPVP8 "))).toBe("image/webp");
  for (const text of ["<svg onload='x'/>", "<!doctype html><script>", "%PDF-1.7", "", "<?xml?><svg/>"])
    expect(pictureType(ascii(text))).toBeNull();
});

test("text is what has no zero byte; a character cut at the end is left out", () => {
  expect(textOf(ascii("a\0b"))).toBeNull();
  expect(textOf(ascii("가나").subarray(0, 5))).toBe("가");
});

/** A file of these bytes, and what was asked of it. */
function fileOf(bytes: Uint8Array<ArrayBuffer>) {
  const asked: number[] = [];
  const read = async (_path: string, most: number) => {
    asked.push(most);
    return { bytes: bytes.slice(0, most), size: bytes.length };
  };
  return { asked, read };
}

test("a text is shown up to its limit, and a page of HTML is a text", async () => {
  const page = await previewOf("x", fileOf(ascii("<script>alert(1)</script>")).read);
  expect(page).toEqual({ kind: "text", text: "<script>alert(1)</script>", shown: 25, size: 25 });
  const long = fileOf(new Uint8Array(TEXT_BYTES + 5).fill(97));
  expect(await previewOf("x", long.read)).toMatchObject({ shown: TEXT_BYTES, size: TEXT_BYTES + 5 });
  expect(long.asked).toEqual([TEXT_BYTES]);
});

test("a picture has an address without an origin, and a limit", async () => {
  expect(await previewOf("x", fileOf(PNG).read)).toEqual({
    kind: "picture",
    address: `data:image/png;base64,${btoa(String.fromCharCode(...PNG))}`,
  });
  const large = new Uint8Array(PICTURE_BYTES + 1);
  large.set(PNG);
  const { asked, read } = fileOf(large);
  expect(await previewOf("x", read)).toEqual({ kind: "large" });
  expect(asked).toEqual([TEXT_BYTES]);
});

test("what is nothing, or nothing to look at", async () => {
  expect(await previewOf("x", fileOf(new Uint8Array()).read)).toEqual({ kind: "empty" });
  expect(await previewOf("x", fileOf(new Uint8Array([0x7f, 0x45, 0, 1])).read)).toEqual({ kind: "none" });
});
