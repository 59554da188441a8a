/**
 * The one way the dashboard talks to CodeHub. Authentication is the session cookie, which scripts cannot read;
 * every change is a same-origin request with a JSON body. Whatever goes wrong becomes an `ApiError` with a stable
 * `code`, which `words/errors.ts` turns into a sentence.
 */
import { Signal } from "../store";
import { learnServerTime } from "../words/clock";
import type { FieldError } from "./types";

export class ApiError extends Error {
  constructor(
    readonly code: string,
    readonly status: number,
    readonly detail: string | null,
    readonly fields: FieldError[] = [],
    readonly extra: Record<string, unknown> = {},
    readonly retryAfterSeconds: number | null = null,
  ) {
    super(detail ?? code);
  }
}

/** Told whenever any request learns that the session has ended. */
export const unauthorized = new Signal();

type Method = "GET" | "POST" | "PATCH" | "PUT" | "DELETE";

export async function call<T>(method: Method, path: string, body?: unknown): Promise<T> {
  const response = await send(method, path.startsWith("/health") ? path : `/api/v1${path}`, body);
  const date = response.headers.get("date");
  if (date) learnServerTime(Date.parse(date), 1000);
  if (!response.ok) throw await problemOf(response, path);
  if (response.status === 204) return undefined as T;
  const isJson = (response.headers.get("content-type") ?? "").includes("json");
  return (isJson ? await response.json() : await response.text()) as T;
}

export interface FilePart {
  bytes: Uint8Array<ArrayBuffer>;
  /** Of the whole file. */
  size: number;
}

/** The first bytes of a file of a workspace. They are whatever the workspace has put there: data, never a page. */
export async function readPart(path: string, most: number): Promise<FilePart> {
  const response = await send("GET", `/api/v1${path}`, undefined, { Range: `bytes=0-${most - 1}` });
  if (!response.ok) {
    const error = await problemOf(response, path);
    // Of an empty file there is no first byte.
    if (error.fields.some((each) => each.field === "Range")) return { bytes: new Uint8Array(), size: 0 };
    throw error;
  }
  try {
    const bytes = new Uint8Array(await response.arrayBuffer());
    const size = Number(response.headers.get("content-range")?.split("/")[1] ?? bytes.length);
    return { bytes, size };
  } catch {
    throw new ApiError("network", 0, null); // it ended in the middle
  }
}

async function send(
  method: Method,
  url: string,
  body: unknown,
  headers: Record<string, string> = {},
): Promise<Response> {
  try {
    return await fetch(url, {
      method,
      credentials: "same-origin",
      headers: body === undefined ? headers : { ...headers, "Content-Type": "application/json" },
      body: body === undefined ? null : JSON.stringify(body),
    });
  } catch {
    throw new ApiError("network", 0, null);
  }
}

export async function problemOf(response: Response, path: string): Promise<ApiError> {
  let data: Record<string, unknown> = {};
  try {
    data = (await response.json()) as Record<string, unknown>;
  } catch {
    // Something between us and CodeHub answered (a gateway, a captive portal): only the status is left to go by.
  }
  if (response.status === 401 && path !== "/auth/login") unauthorized.emit();
  const { code, detail, errors, ...extra } = data;
  const retryAfter = Number(response.headers.get("retry-after"));
  return new ApiError(
    typeof code === "string" ? code : codeOfStatus(response.status),
    response.status,
    typeof detail === "string" ? detail : null,
    Array.isArray(errors) ? (errors as FieldError[]) : [],
    extra,
    retryAfter > 0 ? retryAfter : null,
  );
}

export function codeOfStatus(status: number): string {
  const known: Record<number, string> = {
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    409: "conflict",
    413: "too_large",
    422: "validation_failed",
    429: "rate_limited",
    502: "unavailable",
    503: "unavailable",
    504: "unavailable",
  };
  return known[status] ?? "internal";
}
