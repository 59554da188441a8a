import { expect, test } from "vitest";
import { en as everywhere } from "./en";
import { en as inside } from "./inside/en";
import { ko as insideInKorean } from "./inside/ko";
import { ko as everywhereInKorean } from "./ko";

const en = { ...everywhere, inside };
const ko = { ...everywhereInKorean, inside: insideInKorean };

type Leaf = [path: string, value: unknown];

function leaves(value: unknown, path = ""): Leaf[] {
  if (typeof value !== "object" || value === null) return [[path, value]];
  return Object.entries(value).flatMap(([key, inner]) => leaves(inner, path ? `${path}.${key}` : key));
}

/** A sentence with values, said with sample values. */
function said(value: unknown): string {
  if (typeof value !== "function") return String(value);
  return (value as (...samples: unknown[]) => string)(
    ...Array.from({ length: value.length }, (_, i) => `‹${i}›`),
  );
}

// Patterns that only arrange what they are given, in any language.
const WORDLESS = new Set([
  "time.join",
  "list.announce",
  "history.by",
  "history.withCause",
  "story.join",
  "detail.lastSeenBy",
  "detail.identity",
]);

test("both catalogues have the same sentences", () => {
  expect(leaves(ko).map(([path]) => path)).toEqual(leaves(en).map(([path]) => path));
});

test("every sentence says something", () => {
  for (const [path, value] of [...leaves(en), ...leaves(ko)]) expect(said(value).trim(), path).not.toBe("");
});

test("every Korean sentence is Korean", () => {
  for (const [path, value] of leaves(ko))
    if (!WORDLESS.has(path)) expect(said(value), path).toMatch(/[가-힣]/);
});

test("no sentence drops a value the other language tells", () => {
  const korean = new Map(leaves(ko));
  for (const [path, value] of leaves(en)) {
    if (typeof value !== "function") continue;
    for (let i = 0; i < value.length; i += 1)
      expect(said(korean.get(path)).includes(`‹${i}›`), `${path} value ${i}`).toBe(
        said(value).includes(`‹${i}›`),
      );
  }
});
