/** Paths below a workspace's home, in the address of the page and of the API. Pure. */

/** "a//./b/../c/" → "a/c". Nothing leads above the home: other places are for a terminal. */
export function tidy(path: string): string {
  const parts: string[] = [];
  for (const part of path.split("/")) {
    if (part === "..") parts.pop();
    else if (part !== "" && part !== ".") parts.push(part);
  }
  return parts.join("/");
}

export const join = (folder: string, name: string) => (folder ? `${folder}/${name}` : name);

export const parentOf = (path: string) => path.split("/").slice(0, -1).join("/");

export const nameOf = (path: string) => path.split("/").at(-1) ?? "";

/** Every folder from the home down to `path`, which is the last one. */
export function crumbs(path: string): { name: string; path: string }[] {
  const parts = path === "" ? [] : path.split("/");
  return parts.map((name, i) => ({ name, path: parts.slice(0, i + 1).join("/") }));
}

/** What the page shows: a folder, or a file. */
export interface Place {
  kind: "folder" | "file";
  path: string;
}

export function placeOf(query: URLSearchParams): Place {
  const file = tidy(query.get("file") ?? "");
  return file ? { kind: "file", path: file } : { kind: "folder", path: tidy(query.get("path") ?? "") };
}

export function addressOf(workspaceId: string, place: Place): string {
  const page = `/workspaces/${workspaceId}/files`;
  if (!place.path) return page;
  const query = new URLSearchParams({ [place.kind === "file" ? "file" : "path"]: place.path });
  return `${page}?${query}`;
}

/** Below `/api/v1`. */
export const contentPath = (workspaceId: string, path: string) =>
  `/workspaces/${workspaceId}/files/content?${new URLSearchParams({ path })}`;

/** A folder is downloaded as a tar. */
export const downloadAddress = (workspaceId: string, path: string, kind: Place["kind"]) =>
  `/api/v1/workspaces/${workspaceId}/files/${kind === "file" ? "content" : "archive"}?${new URLSearchParams({ path })}`;

export type NameProblem = "empty" | "slash" | "dots" | "long";

/** Why a name cannot be one; the file system decides about the rest. */
export function nameProblem(name: string): NameProblem | null {
  if (name === "") return "empty";
  if (name.includes("/") || name.includes("\0")) return "slash";
  if (name === "." || name === "..") return "dots";
  return new TextEncoder().encode(name).length > 255 ? "long" : null;
}

/**
 * A name as it is shown. Characters that cannot be seen, and those that turn the direction of what follows, would let a
 * name look like another one.
 */
export const shownName = (name: string) =>
  name.replace(/[\p{Cc}\p{Zl}\p{Zp}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu, "\ufffd");
