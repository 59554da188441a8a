/** In which order files are shown, and what of them can be. Pure. */
import type { FileEntry } from "../api/types";

export const isHidden = (entry: FileEntry) => entry.name.startsWith(".");

/** Folders first, then by name as people count: file2 before file10. */
export function arranged(entries: readonly FileEntry[], language: string, hidden: boolean): FileEntry[] {
  const { compare } = new Intl.Collator(language, { numeric: true, sensitivity: "base" });
  const rank = (entry: FileEntry) => (entry.type === "directory" ? 0 : 1);
  return entries
    .filter((entry) => hidden || !isHidden(entry))
    .sort(
      (a, b) =>
        rank(a) - rank(b) || compare(a.name, b.name) || (a.name < b.name ? -1 : a.name > b.name ? 1 : 0),
    );
}

/** How much of a text is fetched and shown. */
export const TEXT_BYTES = 256 * 1024;
/** The largest picture that is shown. */
export const PICTURE_BYTES = 8 * 1024 * 1024;

const SIGNATURES: [type: string, offset: number, bytes: number[]][] = [
  ["image/png", 0, [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]],
  ["image/jpeg", 0, [0xff, 0xd8, 0xff]],
  ["image/gif", 0, [0x47, 0x49, 0x46, 0x38]],
  ["image/webp", 8, [0x57, 0x45, 0x42, 0x50]],
];

/**
 * The kind of picture this is, by its first bytes and never by its name. SVG is none: it is a document that may hold
 * scripts, and is shown as the text it is.
 */
export function pictureType(bytes: Uint8Array): string | null {
  const fits = (offset: number, wanted: number[]) => wanted.every((byte, i) => bytes[offset + i] === byte);
  return SIGNATURES.find(([, offset, wanted]) => fits(offset, wanted))?.[0] ?? null;
}

/** The bytes as text; null: they are none. A character that was cut at the end is left out. */
export function textOf(bytes: Uint8Array): string | null {
  if (bytes.includes(0)) return null;
  return new TextDecoder().decode(bytes, { stream: true });
}
