/**
 * What is shown of a file. It comes from a workspace, which may be hostile, and is shown on the dashboard's origin: so
 * only as text, or as a picture of a kind that holds no scripts. Pictures are `data:` addresses, which have no origin;
 * a `blob:` address would have the dashboard's, and could be opened in a tab of its own.
 */
import { readPart, type FilePart } from "../api/client";
import { PICTURE_BYTES, pictureType, TEXT_BYTES, textOf } from "./listing";

export type Preview =
  | { kind: "empty" | "none" | "large" }
  | { kind: "text"; text: string; shown: number; size: number }
  | { kind: "picture"; address: string };

export async function previewOf(
  path: string,
  read: (path: string, most: number) => Promise<FilePart> = readPart,
): Promise<Preview> {
  const first = await read(path, TEXT_BYTES);
  if (first.size === 0) return { kind: "empty" };
  const type = pictureType(first.bytes);
  if (type) {
    if (first.size > PICTURE_BYTES) return { kind: "large" };
    const whole = first.size > first.bytes.length ? await read(path, PICTURE_BYTES) : first;
    return { kind: "picture", address: `data:${type};base64,${base64(whole.bytes)}` };
  }
  const text = textOf(first.bytes);
  if (text === null) return { kind: "none" };
  return { kind: "text", text, shown: first.bytes.length, size: first.size };
}

function base64(bytes: Uint8Array): string {
  const pieces: string[] = [];
  for (let at = 0; at < bytes.length; at += 32_768)
    pieces.push(String.fromCharCode(...bytes.subarray(at, at + 32_768)));
  return btoa(pieces.join(""));
}
